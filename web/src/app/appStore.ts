/** The state of the page: the signed-in user, the list of conversations, the open conversation and the side panel. */
import { create } from "zustand";
import { apiPath, type ConversationInfo, type ConversationPage, get as fetchJson, type Me, ProblemError, setProject, withQuery } from "../api/client";
import type { OpenConversation } from "./liveConversation";

export type Panel = "" | "sources" | "canvas" | "inspector";

interface AppState {
  me: Me | null;
  /** "failed": the server is unreachable, or it rejected the request for a reason other than a missing sign-in. */
  authState: "checking" | "signedIn" | "signedOut" | "failed";
  conversations: ConversationInfo[];
  cursor: string;
  open: OpenConversation | null;
  panel: Panel;
  /** The item that the panel shows: a file for "canvas", a block's seq for "inspector", or empty. */
  panelItem: string;
  sidebar: boolean;
  toast: string;
}

export const useAppStore = create<AppState>()(() => ({
  me: null,
  authState: "checking",
  conversations: [],
  cursor: "",
  open: null,
  panel: "",
  panelItem: "",
  sidebar: false,
  toast: "",
}));

const set = useAppStore.setState;
const get = useAppStore.getState;

/** Load the user behind the session cookie, then the conversations. */
export async function signIn(): Promise<void> {
  try {
    const me = await fetchJson<Me>("/me");
    setProject(me.tenant, me.project);
    set({ me, authState: "signedIn" });
    await listConversations();
  } catch (error) {
    set({ authState: error instanceof ProblemError && error.status === 401 ? "signedOut" : "failed", toast: errorMessage(error) });
  }
}

/** Load the first page of conversations, or append the next one. */
export async function listConversations(more = false): Promise<void> {
  const page = await fetchJson<ConversationPage>(
    withQuery(apiPath("conversations"), { limit: 50, cursor: more ? get().cursor : "" }),
  );
  // The server omits empty fields, and a new conversation has no title yet.
  const listed = page.conversations.map((one) => ({ ...one, title: one.title ?? "" }));
  set({ conversations: more ? [...get().conversations, ...listed] : listed, cursor: page.cursor });
}

/** The panel item for the file that the agent is writing, which has no name yet. */
export const DRAFT = "@draft";

export function showPanel(panel: Panel, item = ""): void {
  set({ panel, panelItem: item });
}

const TOAST_MS = 8000;
let toastTimer = 0;

export function showToast(message: string): void {
  window.clearTimeout(toastTimer);
  set({ toast: message });
  toastTimer = window.setTimeout(() => set({ toast: "" }), TOAST_MS);
}

/** Return the error as a sentence for the user, with the fix where one is known. */
export function errorMessage(error: unknown): string {
  if (error instanceof ProblemError) return REMEDIES[error.code] ?? toSentence(error.message);
  return toSentence(error instanceof Error ? error.message : String(error));
}

const REMEDIES: Record<string, string> = {
  unauthorized: "Your session has expired. Open the address that the server printed at startup, or reload the page and enter the token.",
  conversation_held: "This conversation is open in another program. Close it there, then try again.",
  rate_limited: "Too many requests. Wait a moment, then try again.",
  turn_not_running: "The turn has already ended.",
  conversation_unknown: "This conversation does not exist, or you do not have access to it.",
};

export function toSentence(text: string): string {
  return text ? text[0]!.toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".") : "Something went wrong.";
}
