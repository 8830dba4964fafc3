/** The state of the page: the signed-in user, the list of conversations, the open conversation and the side panel. */
import { create } from "zustand";
import { type BundleInfo, call, type ListedConversation, type Me, ProblemError, setProject, sign, type WaitingApproval } from "../api/client";
import type { OpenConversation } from "./liveConversation";

export type Panel = "" | "sources" | "canvas" | "inspector";

interface AppState {
  me: Me | null;
  /**
   * "signedOutOfApp": the application that the page is mounted in does not recognize the user. "failed": the server is
   * unreachable, or it rejected the request for a reason other than a missing sign-in.
   */
  authState: "checking" | "signedIn" | "signedOut" | "signedOutOfApp" | "failed";
  conversations: ListedConversation[];
  cursor: string;
  /** The calls that wait for a decision of this user, in all conversations. */
  approvals: WaitingApproval[];
  /** The bundles that a new conversation may belong to; empty if the server has none. */
  bundles: BundleInfo[];
  /** The name of the chosen bundle of a new conversation. */
  bundle: string;
  open: OpenConversation | null;
  panel: Panel;
  /** The item that the panel shows: a file for "canvas", a block's seq for "inspector", or empty. */
  panelItem: string;
  /** Whether the panel shows the newest file by itself: until the user chooses what it shows. */
  isFollowing: boolean;
  sidebar: boolean;
  toast: string;
}

export const useAppStore = create<AppState>()(() => ({
  me: null,
  authState: "checking",
  conversations: [],
  cursor: "",
  approvals: [],
  bundles: [],
  bundle: "",
  open: null,
  panel: "",
  panelItem: "",
  isFollowing: true,
  sidebar: false,
  toast: "",
}));

const set = useAppStore.setState;
const get = useAppStore.getState;

/** Load the user behind the session cookie, then the conversations. */
export async function loadUser(): Promise<void> {
  try {
    const me = await call("get_me", {});
    setProject(me.tenant, me.project);
    // The server puts a fragment there when the token of the URL was wrong.
    if (window.location.hash === REFUSED) window.history.replaceState(null, "", window.location.pathname);
    set({ me, authState: "signedIn", toast: "" });
    await Promise.all([listConversations(), listApprovals(), listBundles()]);
  } catch (error) {
    set({ authState: isSignedOut(error) ? signedOutState(error) : "failed" });
  }
}

/** The fragment of the URL after a sign-in with a wrong token in the URL. */
export const REFUSED = "#refused";

/** Sign in with a token or an API key, which the server turns into an HttpOnly cookie. Throws the server's error. */
export async function signIn(token: string): Promise<void> {
  await sign("login", { token });
  await loadUser();
}

/** Sign out and forget everything that this tab has of the user. */
export async function signOut(): Promise<void> {
  await sign("logout", {});
  window.sessionStorage.clear();
  window.location.hash = "";
  set({ ...SIGNED_OUT, authState: "signedOut" });
}

const isSignedOut = (error: unknown) => error instanceof ProblemError && error.status === 401;

export const signedOutState = (error: unknown) => (error instanceof ProblemError && error.code === "sign_in_required" ? "signedOutOfApp" : "signedOut");

const SIGNED_OUT = { me: null, conversations: [], cursor: "", approvals: [], bundles: [], bundle: "", open: null, panel: "" as const, panelItem: "", toast: "" };

/** Load the first page of conversations, or append the next one. */
export async function listConversations(more = false): Promise<void> {
  const page = await call("list_conversations", { query: { limit: 50, cursor: more ? get().cursor : "" } });
  set({ conversations: more ? [...get().conversations, ...page.conversations] : page.conversations, cursor: page.cursor });
}

/** Load the calls that wait for this user's decision. */
export async function listApprovals(): Promise<void> {
  try {
    const page = await call("list_approvals", { query: { limit: 50 } });
    set({ approvals: page.approvals });
  } catch (error) {
    // The user's role may not include decisions.
    if (!(error instanceof ProblemError && [403, 404].includes(error.status))) throw error;
  }
}

/** Load the bundles; the server's default one is chosen, or the first one that takes messages. */
async function listBundles(): Promise<void> {
  try {
    const page = await call("list_bundles", {});
    const ready = page.bundles.filter((one) => one.state === "ready");
    set({ bundles: page.bundles, bundle: (ready.find((one) => one.name === page.default) ?? ready[0])?.name ?? "" });
  } catch (error) {
    // An older server has no bundles.
    if (!(error instanceof ProblemError && error.status === 404)) throw error;
  }
}

/** Load the newest conversations and approvals again. Conversations further down the list stay as they are. */
export async function refreshLists(): Promise<void> {
  try {
    const [page] = await Promise.all([call("list_conversations", { query: { limit: 50 } }), listApprovals()]);
    const newest = new Set(page.conversations.map((one) => one.id));
    const oldestTs = page.cursor ? (page.conversations.at(-1)?.last_ts ?? "") : "";
    const older = get().conversations.filter((one) => !newest.has(one.id) && one.last_ts < oldestTs);
    set({ conversations: [...page.conversations, ...older] });
  } catch (error) {
    // An unreachable server is reported where the user acts; the next refresh may succeed.
    if (isSignedOut(error)) set({ ...SIGNED_OUT, authState: signedOutState(error) });
  }
}

/** The panel item for the file that the agent is writing. */
export const DRAFT = "@draft";

/** Show a panel as the user chose it. The panel follows the newest file again once it is closed or shows the list. */
export function showPanel(panel: Panel, item = ""): void {
  set({ panel, panelItem: item, isFollowing: panel === "" || (panel === "canvas" && (item === "" || item === DRAFT)) });
}

/** Show the newest file, unless the user chose something else. */
export function followFile(item: string): void {
  const { isFollowing, panel } = get();
  if (isFollowing && (panel === "" || panel === "canvas")) set({ panel: "canvas", panelItem: item });
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
  sign_in_required: "You are signed out. Sign in again, then reload the page.",
  unauthorized: "You are signed out. Reload the page and enter your token or key.",
  conversation_held: "This conversation is open in another program. Close it there, then try again.",
  rate_limited: "Too many requests. Wait a moment, then try again.",
  turn_not_running: "The turn has already ended.",
  conversation_unknown: "This conversation does not exist, or you do not have access to it.",
};

export function toSentence(text: string): string {
  return text ? text[0]!.toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".") : "Something went wrong.";
}
