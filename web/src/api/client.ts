/** HTTP requests to the server, typed by its OpenAPI document. Problem responses become a `ProblemError`. */
import type { components } from "./schema";

type Schemas = components["schemas"];

// The only names of the generated schema that the page uses: a rename on the server is repaired here.
export type BundleInfo = Schemas["BundleInfo"];
export type BundleList = Schemas["BundleList"];
export type CacheForecast = Schemas["CacheForecast"];
export type CachePoint = Schemas["CachePoint"];
export type ConversationInfo = Schemas["ConversationInfo"] & { state?: ConversationState };
export type ConversationMatch = Schemas["ConversationMatch"];
export type ConversationState = ConversationStatus["state"];
export type ConversationStatus = Schemas["ConvStatus"];
export type Effort = Schemas["Effort"];
export type ForkComparison = Schemas["ForkComparison"];
export type ForkResult = Schemas["ForkResult"];
export type Me = Schemas["Me"];
export type Prompt = Schemas["PromptDetails"];
export type PromptChange = Schemas["PromptChange"];
export type ReplayedCall = Schemas["ReplayedCall"];
export type RerunJob = Schemas["RerunJob"];
export type RoundPair = Schemas["RoundPair"];
export type SearchPage = Schemas["SearchPage"];
export type SendReceipt = Schemas["SendReceipt"];

export interface ConversationPage {
  conversations: ConversationInfo[];
  cursor?: string;
}

/** A call that waits for a decision, in a conversation that the user may read. */
export interface WaitingApproval {
  conversation_id: string;
  tool_call_id: string;
  title?: string;
  user?: string;
  tool_id?: string;
  text?: string;
}

export interface ApprovalPage {
  approvals?: WaitingApproval[];
  cursor?: string;
}

/** Whether the user may send messages to a conversation and decide on its calls; an older server does not say. */
export interface ConversationAccess {
  may_write?: boolean;
  may_decide?: boolean;
  user?: string;
  bundle?: string;
}

export class ProblemError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

let current = { tenant: "local", project: "default" };

/** Set the project that all further requests address. */
export function setProject(tenant: string, project: string): void {
  current = { tenant, project };
}

/** The folder of the page on its server: `/`, or the prefix at which another application has mounted it. */
const ROOT = new URL(".", document.baseURI).pathname;

/** Return the path of a resource of the server, with each part URL-encoded. */
export function serverPath(...parts: string[]): string {
  return ROOT + parts.map(encodeURIComponent).join("/");
}

/** Return the path of a resource of the current project. */
export function apiPath(family: string, ...parts: string[]): string {
  return serverPath(family, current.tenant, current.project, ...parts);
}

export function withQuery(path: string, query: Record<string, string | number | null | undefined>): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given.map(([key, value]) => [key, String(value)]))}` : path;
}

interface ProblemBody {
  code?: string;
  detail?: string;
  title?: string;
}

export async function problemOf(response: Response): Promise<ProblemError> {
  let code = "";
  let detail = "";
  try {
    const problem = (await response.json()) as ProblemBody;
    code = problem.code ?? "";
    detail = problem.detail || problem.title || "";
  } catch {
    detail = "";
  }
  return new ProblemError(response.status, code, detail || `The server returned status ${response.status}.`);
}

export async function request<T>(method: string, path: string, body?: unknown): Promise<T> {
  const init: RequestInit = { method, credentials: "same-origin" };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { "content-type": "application/json" };
  }
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch {
    throw new ProblemError(0, "unreachable", "The server is unreachable. Your text is still here: try again in a moment.");
  }
  if (!response.ok) throw await problemOf(response);
  return (response.status === 204 ? undefined : await response.json()) as T;
}

export const get = <T>(path: string) => request<T>("GET", path);
export const post = <T>(path: string, body: unknown) => request<T>("POST", path, body);

/** The code of an upload that was aborted before it was complete, so the server stored nothing. */
export const UPLOAD_ABORTED = "upload_aborted";

/**
 * Send a form with files and report the progress, which `fetch` cannot do. Aborting works until the upload is complete:
 * after that the server may have stored it.
 */
export function upload<T>(path: string, form: FormData, progress: (share: number) => void, abort?: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest();
    xhr.open("POST", path);
    let share = 0;
    xhr.upload.onprogress = (event) => {
      if (!event.lengthComputable) return;
      share = event.loaded / event.total;
      progress(share);
    };
    xhr.upload.onload = () => {
      share = 1;
      progress(share);
    };
    abort?.addEventListener("abort", () => share < 1 && xhr.abort());
    xhr.onabort = () => reject(new ProblemError(0, UPLOAD_ABORTED, "The upload was cancelled. Nothing was sent."));
    xhr.onerror = () => reject(new ProblemError(0, "unreachable", "The upload failed. Your files are still attached: send the message again."));
    xhr.onload = () => {
      let body: ProblemBody = {};
      try {
        body = JSON.parse(xhr.responseText) as ProblemBody;
      } catch {
        body = {};
      }
      if (xhr.status < 300) resolve(body as T);
      else reject(new ProblemError(xhr.status, body.code ?? "", body.detail || body.title || `The server returned status ${xhr.status}.`));
    };
    xhr.send(form);
  });
}
