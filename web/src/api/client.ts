/** HTTP requests to the server, typed by its OpenAPI document. Problem responses become a `ProblemError`. */
import { type FeedbackBody, type Operations, type ProblemDetails, ROUTES } from "./schema";

// The only names of the generated schema that the page uses: a rename on the server is repaired here.
export type {
  BundleInfo,
  CacheForecast,
  CachePoint,
  ChatBlock,
  ChatDelta,
  ChatStep,
  ConversationInfo,
  ConversationMatch,
  ConvStatus as ConversationStatus,
  Effort,
  ForkComparison,
  ListedConversation,
  Me,
  PromptChange,
  PromptDetails as Prompt,
  ReplayedCall,
  RoundPair,
  SendReceipt,
  StreamData,
  StreamEvent,
  WaitingApproval,
} from "./schema";

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

type Arguments = { query?: Record<string, string | number | null | undefined>; body?: unknown; [name: string]: unknown };

export type Reaction = NonNullable<FeedbackBody["reaction"]>;

/** Return the address of an operation: its path in the current project, with each part URL-encoded, and its query. */
export function addressOf<K extends keyof Operations>(name: K, given: Omit<Operations[K]["arguments"], "body">): string {
  const { query, ...names } = given as Arguments;
  const values: Record<string, unknown> = { ...current, ...names };
  const path = ROUTES[name][1].replace(/\{(\w+)\}/g, (_, key: string) => encodeURIComponent(String(values[key])));
  return withQuery(ROOT + path.slice(1), query ?? {});
}

function withQuery(path: string, query: Record<string, string | number | null | undefined>): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given.map(([key, value]) => [key, String(value)]))}` : path;
}

/** Call an operation and return its result; a query without a value is not sent. */
export function call<K extends keyof Operations>(name: K, given: Operations[K]["arguments"]): Promise<Operations[K]["result"]> {
  return request(ROUTES[name][0], addressOf(name, given), (given as Arguments).body);
}

export async function problemOf(response: Response): Promise<ProblemError> {
  let code = "";
  let detail = "";
  try {
    const problem = (await response.json()) as Partial<ProblemDetails>;
    code = problem.code ?? "";
    detail = problem.detail || problem.title || "";
  } catch {
    detail = "";
  }
  return new ProblemError(response.status, code, detail || `The server returned status ${response.status}.`);
}

async function request<T>(method: string, path: string, body?: unknown): Promise<T> {
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

/** Sign in with a token or sign out, which sets or removes the cookie of the browser. */
export const sign = (way: "login" | "logout", body: { token?: string }) => request<undefined>("POST", serverPath(way), body);

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
      let body: Partial<ProblemDetails> = {};
      try {
        body = JSON.parse(xhr.responseText) as Partial<ProblemDetails>;
      } catch {
        body = {};
      }
      if (xhr.status < 300) resolve(body as T);
      else reject(new ProblemError(xhr.status, body.code ?? "", body.detail || body.title || `The server returned status ${xhr.status}.`));
    };
    xhr.send(form);
  });
}
