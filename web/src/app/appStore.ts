/** The store of the page: who is there, which conversations there are, and the one that is open. */
import { create } from "zustand";
import { address, type ConversationInfo, enter, get as fetchJson, type Me, post, ProblemError, type Schemas, upload, withQuery } from "../api/client";
import { type Connection, follow, type StreamEvent } from "../api/stream";
import { type Block, meta, table } from "../timeline/blocks";
import { addOutput, emptyTimeline, fileKey, forgetOutput, type Heard, markSeen, takeBlock, type Timeline } from "../timeline/fold";
import type { Live } from "../timeline/model";

export type Panel = "" | "sources" | "canvas" | "inspector";
type Status = Schemas["ConvStatus"];

export interface OpenConversation {
  id: string;
  timeline: Timeline;
  /** Grows whenever the timeline does; the timeline itself is changed in place. */
  version: number;
  live: Live;
  status: Status | null;
  connection: Connection;
  /** Why it cannot be shown, or why its turn does not go on. */
  problem: string;
  compacting: boolean;
  /** What was sent from here and is not on the timeline yet. */
  sending: { text: string; how: string }[];
}

interface PageState {
  me: Me | null;
  entered: "no" | "asking" | "yes" | "refused";
  conversations: ConversationInfo[];
  cursor: string;
  open: OpenConversation | null;
  panel: Panel;
  shown: string;
  sidebar: boolean;
  toast: string;
}

export const usePage = create<PageState>()(() => ({
  me: null,
  entered: "asking",
  conversations: [],
  cursor: "",
  open: null,
  panel: "",
  shown: "",
  sidebar: false,
  toast: "",
}));

const set = usePage.setState;
const now = usePage.getState;

export async function comeIn(): Promise<void> {
  try {
    const me = await fetchJson<Me>("/me");
    enter(me.tenant, me.project);
    set({ me, entered: "yes" });
    await listConversations();
  } catch (error) {
    set({ entered: error instanceof ProblemError && error.status === 401 ? "no" : "refused", toast: wordsOf(error) });
  }
}

export async function listConversations(more = false): Promise<void> {
  const page = await fetchJson<Schemas["ConversationPage"]>(
    withQuery(address("conversations"), { limit: 50, cursor: more ? now().cursor : "" }),
  );
  // What is empty is left out by the server: a conversation may have no title yet.
  const listed = page.conversations.map((one) => ({ ...one, title: one.title ?? "" }));
  set({ conversations: more ? [...now().conversations, ...listed] : listed, cursor: page.cursor });
}

let leave: (() => void) | null = null;

export function openConversation(id: string): void {
  if (now().open?.id === id) return;
  leave?.();
  set({ open: opened(id), panel: now().panel === "inspector" ? "inspector" : "", shown: "" });
  leave = follow(id, {
    after: () => now().open?.timeline.tail ?? 0,
    tell: (events) => queue(id, events),
    connection: (connection, problem) => {
      // The server knows this browser no more, as after a restart: whoever comes in again finds the conversation where it was.
      if (problem?.status === 401) {
        closeConversation();
        set({ entered: "no" });
        return;
      }
      patch(id, (open) => ({ ...open, connection, problem: problem ? wordsOf(problem) : open.problem }));
      // In its place among the events: some of the stream before may still wait to be taken in.
      if (connection === "live") queue(id, [{ event: BEGUN, data: null }]);
    },
  });
}

/** Reads it from its beginning: what was shown is not what is stored any more. */
export function openAgain(id: string): void {
  if (now().open?.id !== id) return;
  closeConversation();
  openConversation(id);
}

export function closeConversation(): void {
  leave?.();
  leave = null;
  set({ open: null, panel: "", shown: "" });
}

function opened(id: string): OpenConversation {
  return {
    id,
    timeline: emptyTimeline(),
    version: 0,
    live: quiet(),
    status: null,
    connection: "connecting",
    problem: "",
    compacting: false,
    sending: [],
  };
}

/** A stream begins, and with it all text that is on its way is told again. */
const BEGUN = "stream.begun";

const quiet = (): Live => ({ channels: {}, since: {}, stale: false, joining: 0, joinedAt: 0 });
/** All of it has ended; that a stream has just begun stays so. */
const ended = (live: Live): Live => (Object.keys(live.since).length ? { ...quiet(), joining: live.joining, joinedAt: live.joinedAt } : live);

let waiting: { id: string; events: StreamEvent[] } = { id: "", events: [] };
let planned = 0;

/** Events are taken in once a frame: a stream has hundreds in a second, a screen sixty. */
function queue(id: string, events: StreamEvent[]): void {
  if (waiting.id !== id) waiting = { id, events: [] };
  waiting.events.push(...events);
  if (planned) return;
  const flush = () => {
    window.clearTimeout(timer);
    window.cancelAnimationFrame(frame);
    planned = 0;
    const { id: of, events: taken } = waiting;
    waiting = { id: "", events: [] };
    patch(of, (open) => taken.reduce(take, { ...open, version: open.version + 1 }));
  };
  // A page in the background has no frames.
  const timer = window.setTimeout(flush, 100);
  const frame = window.requestAnimationFrame(flush);
  planned = 1;
}

function patch(id: string, change: (open: OpenConversation) => OpenConversation): void {
  const { open } = now();
  if (open?.id === id) set({ open: change(open) });
}

function take(open: OpenConversation, { event, data }: StreamEvent): OpenConversation {
  switch (event) {
    case "chat.block": {
      const { seq, block } = data as { seq: number; block: Block };
      takeBlock(open.timeline, seq, block, heardOf(open.live));
      return afterBlock({ ...open, live: liveAfter(open.live, block), sending: sendingAfter(open.sending, block) }, block);
    }
    case "chat.step": {
      const step = data as { step: string; turn_id: string; seen?: number };
      if (step.step === "model" && step.seen) {
        markSeen(open.timeline, step.turn_id, step.seen, open.timeline.blocks[open.timeline.tail - 1]?.ts ?? "");
      }
      return open;
    }
    case BEGUN:
      return { ...open, live: { ...open.live, stale: true, joining: 2, joinedAt: 0 } };
    case "chat.delta":
      return takeDelta(open, data as Delta);
    case "conv.status":
      return takeStatus(open, data as Status);
    case "chat.compaction":
      return { ...open, compacting: (data as { status: string }).status === "started" };
    case "chat.error": {
      const { code, message } = data as { code: string; message: string };
      return ["reader_too_slow", "server_closing"].includes(code) ? open : { ...open, problem: message };
    }
    default:
      return open;
  }
}

function takeStatus(open: OpenConversation, status: Status): OpenConversation {
  const idle = status.state === "idle";
  const { joining } = open.live;
  const live = joining ? { ...open.live, joining: joining - 1, joinedAt: Date.now() } : open.live;
  return { ...open, status, live: idle ? { ...ended(live), stale: false } : live, compacting: open.compacting && !idle };
}

const SPOKEN = new Set(["answer", "thinking", "timeline_text", "canvas", "code"]);

interface Delta {
  turn_id: string;
  channel: string;
  text: string;
  /** More stood before it than the server tells again. */
  cut?: boolean;
}

function takeDelta(open: OpenConversation, { turn_id, channel, text, cut }: Delta): OpenConversation {
  const { channels: known, since, stale, joinedAt } = open.live;
  if (stale) forgetOutput(open.timeline, turn_id);
  const channels = stale ? {} : known;
  if (!SPOKEN.has(channel)) {
    addOutput(open.timeline, turn_id, text);
    return stale ? { ...open, live: { ...open.live, channels, stale: false } } : open;
  }
  if (channel === "canvas" && known["canvas"] === undefined && now().panel === "" && window.matchMedia(WIDE).matches) show("canvas", DRAFT);
  const before = cut ? GAP : (channels[channel] ?? "");
  const began = since[channel] ?? (Date.now() - joinedAt < TOLD_AGAIN_MS ? 0 : Date.now());
  return {
    ...open,
    live: { ...open.live, channels: { ...channels, [channel]: before + text }, since: { ...since, [channel]: began }, stale: false },
  };
}

/** What comes so soon after a stream says how it stands may have been written long before. */
const TOLD_AGAIN_MS = 250;

/** What was heard of the reply that ends now; 0 is unknown. */
export function heardOf({ since }: Live): Heard {
  const { thinking, ...others } = since;
  const rest = Object.values(others);
  const next = rest.includes(0) ? 0 : Math.min(...rest, Date.now());
  return { thoughtMs: thinking && next ? Math.max(1, next - thinking) : 0, restMs: rest.length && next ? Date.now() - next : 0 };
}

/** Stands for the beginning of a text that was too long to be told again; the stored block has it. */
const GAP = "… ";

const ENDS = table<string[]>({
  "react.thinking": ["thinking"],
  "react.notes": ["timeline_text"],
  "react.tool.code": ["code"],
  "react.tool.result": ["canvas"],
  "assistant.completion": ["answer"],
});
const ENDS_ALL = new Set(["react.model.call", "react.round.start", "react.turn.end"]);

function liveAfter(live: Live, block: Block): Live {
  // What was written of a reply that failed is in its outcome.
  const failed = block.type === "react.model.outcome" && Boolean(meta(block, "error"));
  if (failed || ENDS_ALL.has(block.type)) return ended(live);
  const over = ENDS[block.type];
  if (!over?.some((channel) => channel in live.channels)) return live;
  const channels = Object.fromEntries(Object.entries(live.channels).filter(([channel]) => !over.includes(channel)));
  return { ...live, channels };
}

function sendingAfter(sending: OpenConversation["sending"], block: Block): OpenConversation["sending"] {
  if (!sending.length || !block.type.startsWith("user.")) return sending;
  const at = sending.findIndex((one) => one.text === (block.text ?? ""));
  return at < 0 ? sending : sending.toSpliced(at, 1);
}

function afterBlock(open: OpenConversation, block: Block): OpenConversation {
  if (block.type === "conv.title") rename(open.id, block.text ?? "");
  if (block.type === "react.tool.result" && block.path?.startsWith("fi:") && now().shown === DRAFT) show("canvas", fileKey(block.path));
  if (block.type === "turn.header") return { ...open, problem: "" };
  return open;
}

function rename(id: string, title: string): void {
  set({ conversations: now().conversations.map((one) => (one.id === id ? { ...one, title } : one)) });
}

/** Says something: begins a conversation, a turn, or joins the one that runs. Throws what the server refuses. */
export async function say(text: string, how: "message" | "steer", files: File[] = [], sending: Sending = {}): Promise<string> {
  const { open } = now();
  const one = { text, how };
  if (open) patch(open.id, (before) => ({ ...before, sending: [...before.sending, one] }));
  const path = how === "steer" && open ? address("events", open.id) : address("chat");
  const body: Record<string, string> = how === "steer" && open ? { kind: "steer", text } : { message: text };
  if (open && how !== "steer") body["conversation_id"] = open.id;
  try {
    const accepted = files.length ? await upload<Accepted>(path, formOf(body, files), sending.progress ?? (() => undefined), sending.stop) : await post<Accepted>(path, body);
    if (!open) void listConversations();
    return accepted.conversation_id;
  } catch (error) {
    if (open) patch(open.id, (before) => ({ ...before, sending: before.sending.filter((other) => other !== one) }));
    throw error;
  }
}

type Accepted = Schemas["Accepted"];

interface Sending {
  progress?: (share: number) => void;
  stop?: AbortSignal;
}

function formOf(body: Record<string, string>, files: File[]): FormData {
  const form = new FormData();
  for (const [key, value] of Object.entries(body)) form.append(key, value);
  for (const file of files) form.append("files", file, file.name);
  return form;
}

export async function stop(): Promise<void> {
  const { open } = now();
  if (open) await post(address("events", open.id), { kind: "steer", text: "" });
}

/** Stands for the file that is being written, which has no name yet. */
export const DRAFT = "@draft";
const WIDE = "(min-width: 901px)";

export function show(panel: Panel, shown = ""): void {
  set({ panel, shown });
}

let toastTimer = 0;

export function tellUser(words: string): void {
  window.clearTimeout(toastTimer);
  set({ toast: words });
  toastTimer = window.setTimeout(() => set({ toast: "" }), 8000);
}

export function wordsOf(error: unknown): string {
  if (error instanceof ProblemError) return REMEDIES[error.code] ?? sentence(error.message);
  return sentence(error instanceof Error ? error.message : String(error));
}

const REMEDIES: Record<string, string> = {
  unauthorized: "The server does not know you any more. Open the address that it printed at its start, or reload and enter the token.",
  conversation_held: "Another program has this conversation open. Close it there, then try again.",
  rate_limited: "Too many requests at once. Wait a moment, then try again.",
  turn_not_running: "There was nothing left to stop.",
  conversation_unknown: "This conversation does not exist, or it is not yours.",
};

export function sentence(text: string): string {
  return text ? text[0]!.toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".") : "Something went wrong.";
}
