/** Requests to the server: typed by its OpenAPI document, with problems as errors that say what to do. */
import type { components } from "./schema";

export type Schemas = components["schemas"];
export type ConversationInfo = Schemas["ConversationInfo"];
export type FileCard = Schemas["FileCard"];
export type Prompt = Schemas["Prompt"];
export type Me = Schemas["Me"];

export class ProblemError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

let home = { tenant: "local", project: "default" };

/** All requests from here on are about this project. */
export function enter(tenant: string, project: string): void {
  home = { tenant, project };
}

/** The address of a resource: parts are encoded, tenant and project come first. */
export function address(family: string, ...parts: string[]): string {
  return ["", family, home.tenant, home.project, ...parts].map(encodeURIComponent).join("/");
}

export function withQuery(path: string, query: Record<string, string | number | null | undefined>): string {
  const said = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return said.length ? `${path}?${new URLSearchParams(said.map(([key, value]) => [key, String(value)]))}` : path;
}

export async function problemOf(response: Response): Promise<ProblemError> {
  let code = "";
  let detail = "";
  try {
    const said = (await response.json()) as { code?: string; detail?: string; title?: string };
    code = said.code ?? "";
    detail = said.detail || said.title || "";
  } catch {
    detail = "";
  }
  return new ProblemError(response.status, code, detail || `the server answered ${response.status}`);
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
    throw new ProblemError(0, "unreachable", "The server cannot be reached. What you wrote is kept; try again in a moment.");
  }
  if (!response.ok) throw await problemOf(response);
  return (response.status === 204 ? undefined : await response.json()) as T;
}

export const get = <T>(path: string) => request<T>("GET", path);
export const post = <T>(path: string, body: unknown) => request<T>("POST", path, body);

/** That an upload was stopped before all of it was on its way: the server took nothing of it. */
export const STOPPED = "upload_stopped";

/**
 * Sends a form with files and tells how much of it is on its way; fetch cannot say that. It can be stopped until all of it
 * is: from then on the server may have taken it.
 */
export function upload<T>(path: string, form: FormData, progress: (share: number) => void, stop?: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const sending = new XMLHttpRequest();
    sending.open("POST", path);
    let share = 0;
    sending.upload.onprogress = (event) => {
      if (!event.lengthComputable) return;
      share = event.loaded / event.total;
      progress(share);
    };
    sending.upload.onload = () => {
      share = 1;
      progress(share);
    };
    stop?.addEventListener("abort", () => share < 1 && sending.abort());
    sending.onabort = () => reject(new ProblemError(0, STOPPED, "Nothing was sent yet."));
    sending.onerror = () => reject(new ProblemError(0, "unreachable", "The upload was cut off. The files are still here; send again."));
    sending.onload = () => {
      let said: { code?: string; detail?: string; title?: string } = {};
      try {
        said = JSON.parse(sending.responseText) as typeof said;
      } catch {
        said = {};
      }
      if (sending.status < 300) resolve(said as T);
      else reject(new ProblemError(sending.status, said.code ?? "", said.detail || said.title || `the server answered ${sending.status}`));
    };
    sending.send(form);
  });
}
