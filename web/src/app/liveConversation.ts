/** The open conversation: applies the events of its stream to its state, and sends messages to it. */
import { addressOf, call, type ChatDelta, type ConversationStatus, type SendReceipt, type StreamEvent, upload } from "../api/client";
import { type Connection, subscribe } from "../api/stream";
import { asString, type Block, isObject, meta, objectOf, table } from "../timeline/blocks";
import { addOutput, applyBlock, clearOutput, emptyTimeline, fileKey, markSeen, type StreamTimings, type Timeline } from "../timeline/fold";
import type { Live, LiveFile, LiveText } from "../timeline/model";
import { DRAFT, errorMessage, followFile, listApprovals, listConversations, signedOutState, toSentence, useAppStore } from "./appStore";

export interface OpenConversation {
  id: string;
  timeline: Timeline;
  /** Increases with every change of the timeline, which is updated in place. */
  version: number;
  live: Live;
  status: ConversationStatus | null;
  connection: Connection;
  /** Why the conversation cannot be shown, or why its turn cannot continue. */
  problem: string;
  compacting: boolean;
  /** Increases with each request of the user whose outcome is at the end, which is then scrolled into view. */
  endRequests: number;
  /** Whether the user may send messages to it. */
  mayWrite: boolean;
  /** Whether the user may decide on its calls that wait for approval. */
  mayDecide: boolean;
  owner: string;
  /** The name of its bundle; empty if it has none. */
  bundle: string;
  /** Messages that this page sent and the timeline does not have yet. */
  sending: { text: string; mode: SendMode }[];
}

export type SendMode = "message" | "steer";

const set = useAppStore.setState;
const get = useAppStore.getState;

let unsubscribe: (() => void) | null = null;

export function openConversation(id: string): void {
  if (get().open?.id === id) return;
  unsubscribe?.();
  const keepsInspector = get().panel === "inspector";
  set({ open: newOpenConversation(id), panel: keepsInspector ? "inspector" : "", panelItem: "", isFollowing: !keepsInspector });
  void loadAccess(id);
  unsubscribe = subscribe(id, {
    lastSeq: () => get().open?.timeline.tail ?? 0,
    onEvents: (events) => queueEvents(id, events),
    onConnection: (connection, problem) => {
      // The session is no longer valid, for example after a restart. The URL keeps the conversation, so it opens again after sign-in.
      if (problem?.status === 401) {
        closeConversation();
        set({ authState: signedOutState(problem) });
        return;
      }
      updateOpen(id, (open) => ({ ...open, connection, problem: problem ? errorMessage(problem) : open.problem }));
      // Queued in order with the other events, because events of the previous stream may still be waiting.
      if (connection === "live") queueEvents(id, [{ event: STREAM_STARTED, data: null }]);
    },
  });
}

async function loadAccess(id: string): Promise<void> {
  try {
    const { may_write, may_decide, user, bundle = "" } = await call("get_conversation", { conversation_id: id });
    updateOpen(id, (open) => ({ ...open, mayWrite: may_write, mayDecide: may_decide, owner: user, bundle }));
  } catch {
    // The stream of the same conversation reports why it cannot be read.
  }
}

/** Read the open conversation from its beginning, because stored blocks have changed. */
export function reloadConversation(id: string): void {
  if (get().open?.id !== id) return;
  closeConversation();
  openConversation(id);
}

export function closeConversation(): void {
  unsubscribe?.();
  unsubscribe = null;
  set({ open: null, panel: "", panelItem: "", isFollowing: true });
}

function newOpenConversation(id: string): OpenConversation {
  return {
    id,
    timeline: emptyTimeline(),
    version: 0,
    live: emptyLive(),
    status: null,
    connection: "connecting",
    problem: "",
    compacting: false,
    endRequests: 0,
    mayWrite: true,
    mayDecide: true,
    owner: "",
    bundle: "",
    sending: [],
  };
}

/** An event of this page, not of the server: a stream has started and resends all unfinished text. */
const STREAM_STARTED = "stream.started";

type PageEvent = StreamEvent | { event: typeof STREAM_STARTED; data: null };

const emptyLive = (): Live => ({ channels: {}, files: [], texts: [], since: {}, stale: false, expectedStatuses: 0, lastStatusAt: 0 });
/** Drop all unfinished text, but remember that a stream has just started. */
const clearLive = (live: Live): Live =>
  Object.keys(live.since).length ? { ...emptyLive(), expectedStatuses: live.expectedStatuses, lastStatusAt: live.lastStatusAt } : live;

let queued: { id: string; events: PageEvent[] } = { id: "", events: [] };
let isFlushScheduled = false;

/** Apply events once per frame: a stream sends hundreds per second, a screen draws sixty. */
function queueEvents(id: string, events: PageEvent[]): void {
  if (queued.id !== id) queued = { id, events: [] };
  queued.events.push(...events);
  if (isFlushScheduled) return;
  const flush = () => {
    window.clearTimeout(timer);
    window.cancelAnimationFrame(frame);
    isFlushScheduled = false;
    const batch = queued;
    queued = { id: "", events: [] };
    updateOpen(batch.id, (open) => batch.events.reduce(applyEvent, { ...open, version: open.version + 1 }));
  };
  // A page in the background gets no animation frames.
  const timer = window.setTimeout(flush, 100);
  const frame = window.requestAnimationFrame(flush);
  isFlushScheduled = true;
}

function updateOpen(id: string, change: (open: OpenConversation) => OpenConversation): void {
  const { open } = get();
  if (open?.id === id) set({ open: change(open) });
}

function applyEvent(open: OpenConversation, { event, data }: PageEvent): OpenConversation {
  switch (event) {
    case "chat.block": {
      const { seq } = data;
      // A foreign block can have any form; the functions of the timeline read it safely.
      const block = data.block as Block;
      applyBlock(open.timeline, seq, block, streamTimings(open.live));
      return afterBlock({ ...open, live: closeChannels(open.live, block), sending: withoutStored(open.sending, block) }, block);
    }
    case "chat.step": {
      if (data.step === "model" && data.seen) {
        markSeen(open.timeline, data.turn_id, data.seen, open.timeline.blocks[open.timeline.tail - 1]?.ts ?? "");
      }
      return open;
    }
    case STREAM_STARTED:
      return { ...open, live: { ...open.live, stale: true, expectedStatuses: 2, lastStatusAt: 0 } };
    case "chat.delta":
      return applyDelta(open, data);
    case "conv.status":
      return applyStatus(open, data);
    case "chat.compaction":
      return { ...open, compacting: data.status === "started" };
    case "chat.error":
      return ["reader_too_slow", "server_closing"].includes(data.code) ? open : { ...open, problem: toSentence(data.message) };
    default:
      return open;
  }
}

function applyStatus(open: OpenConversation, status: ConversationStatus): OpenConversation {
  const idle = status.state === "idle";
  if (status.state !== open.status?.state) noteState(open.id, status.state);
  const { expectedStatuses } = open.live;
  const live = expectedStatuses ? { ...open.live, expectedStatuses: expectedStatuses - 1, lastStatusAt: Date.now() } : open.live;
  return { ...open, status, live: idle ? { ...clearLive(live), stale: false } : live, compacting: open.compacting && !idle };
}

/** Show the new state in the list of conversations, and load the approvals again if it may have changed them. */
function noteState(id: string, state: ConversationStatus["state"]): void {
  const { conversations } = get();
  const before = conversations.find((one) => one.id === id)?.state;
  if (before !== state) set({ conversations: conversations.map((one) => (one.id === id ? { ...one, state } : one)) });
  if (state === "waiting" || before === "waiting" || get().approvals.some((one) => one.conversation_id === id)) {
    listApprovals().catch(() => undefined); // The lists are loaded again at intervals.
  }
}

/** Channels of the model's reply. Every other channel is output of a running tool. */
const REPLY_CHANNELS = new Set(["answer", "thinking", "timeline_text", "canvas", "code"]);

const WIDE_SCREEN = "(min-width: 901px)";

function applyDelta(open: OpenConversation, delta: ChatDelta): OpenConversation {
  const { turn_id, channel, text, cut } = delta;
  const { channels: known, files: knownFiles, texts: knownTexts, since, stale, lastStatusAt } = open.live;
  if (stale) clearOutput(open.timeline, turn_id);
  const channels = stale ? {} : known;
  const files = stale ? [] : knownFiles;
  const texts = stale ? [] : knownTexts;
  if (isDeclared(open, channel)) {
    const startedAt = since[channel] ?? Date.now();
    return { ...open, live: { ...open.live, channels, files, texts: withText(texts, delta), since: { ...since, [channel]: startedAt }, stale: false } };
  }
  if (!REPLY_CHANNELS.has(channel)) {
    addOutput(open.timeline, turn_id, text);
    return stale ? { ...open, live: { ...open.live, channels, files, texts, stale: false } } : open;
  }
  const startedAt = since[channel] ?? (Date.now() - lastStatusAt < RESEND_MS ? 0 : Date.now());
  const live = { ...open.live, channels, files, texts, since: { ...since, [channel]: startedAt }, stale: false };
  if (delta.path || channel === "canvas") return { ...open, live: { ...live, files: withFileText(files, delta) } };
  const before = cut ? TRUNCATED_START : (channels[channel] ?? "");
  return { ...open, live: { ...live, channels: { ...channels, [channel]: before + text } } };
}

/** Whether the running turn declares this channel beside the built-in ones. */
function isDeclared(open: OpenConversation, channel: string): boolean {
  return !REPLY_CHANNELS.has(channel) && (open.timeline.turns.at(-1)?.channels.some((one) => one.name === channel) ?? false);
}

function withText(texts: LiveText[], { channel, index, text, cut }: ChatDelta): LiveText[] {
  const at = texts.findIndex((one) => one.channel === channel && one.index === index);
  const known = texts[at];
  const whole = (cut ? TRUNCATED_START : (known?.text ?? "")) + text;
  return known ? texts.with(at, { ...known, text: whole }) : [...texts, { channel, index, text: whole }];
}

/** Return the unfinished files with the text of a delta. The panel shows a new file of the canvas. */
function withFileText(files: LiveFile[], { channel, index, text, cut, path = "", mime = "" }: ChatDelta): LiveFile[] {
  const at = files.findIndex((one) => one.index === index && one.path === path && one.channel === channel);
  const known = files[at];
  if (known) return files.with(at, { ...known, text: (cut ? TRUNCATED_START : known.text) + text });
  if (channel === "canvas" && (get().panel === "canvas" || window.matchMedia(WIDE_SCREEN).matches)) followFile(DRAFT);
  return [...files, { index, channel, path, mime, text: (cut ? TRUNCATED_START : "") + text }];
}

/** Text that arrives within this time after a status may be resent text, so its start time is unknown. */
const RESEND_MS = 250;

/** Return how long the reply that is being streamed has been thinking and writing; 0 means unknown. */
export function streamTimings({ since }: Live): StreamTimings {
  const { thinking, ...others } = since;
  const rest = Object.values(others);
  const outputStart = rest.includes(0) ? 0 : Math.min(...rest, Date.now());
  return {
    thinkingMs: thinking && outputStart ? Math.max(1, outputStart - thinking) : 0,
    outputMs: rest.length && outputStart ? Date.now() - outputStart : 0,
  };
}

/** Replaces the start of a text that was too long to resend. The stored block has all of it. */
const TRUNCATED_START = "… ";

/** The channels whose text each type of stored block replaces. */
const REPLACES = table<string[]>({
  "react.thinking": ["thinking"],
  "react.notes": ["timeline_text"],
  "react.tool.code": ["code"],
  "assistant.completion": ["answer"],
});
const REPLACES_ALL = new Set(["react.model.call", "react.round.start", "react.turn.end"]);

function closeChannels(live: Live, block: Block): Live {
  // The outcome of a failed reply contains the text that was streamed.
  const failed = block.type === "react.model.outcome" && Boolean(meta(block, "error"));
  if (failed || REPLACES_ALL.has(block.type)) return clearLive(live);
  if (block.type === "react.channel") {
    // The blocks of a reply arrive together, and each has the next text of its channel.
    const at = live.texts.findIndex((one) => one.channel === asString(meta(block, "channel")));
    return at < 0 ? live : { ...live, texts: live.texts.toSpliced(at, 1) };
  }
  if (block.type === "react.tool.result") return live.files.length ? { ...live, files: withoutResult(live.files, block) } : live;
  const replaced = REPLACES[block.type];
  if (!replaced?.some((channel) => channel in live.channels)) return live;
  const channels = Object.fromEntries(Object.entries(live.channels).filter(([channel]) => !replaced.includes(channel)));
  return { ...live, channels };
}

/** Return the files that a result does not replace: it contains one file, describes one, or tells of a failed call. */
function withoutResult(files: LiveFile[], block: Block): LiveFile[] {
  const path = block.path?.startsWith("fi:") ? block.path : asString(objectOf(block.text)["artifact_path"]);
  return path ? files.filter((one) => one.path !== "" && one.path !== path) : [];
}

function withoutStored(sending: OpenConversation["sending"], block: Block): OpenConversation["sending"] {
  if (!sending.length || !block.type.startsWith("user.")) return sending;
  const at = sending.findIndex((one) => one.text === (block.text ?? ""));
  return at < 0 ? sending : sending.toSpliced(at, 1);
}

function afterBlock(open: OpenConversation, block: Block): OpenConversation {
  if (block.type === "conv.title") renameInList(open.id, block.text ?? "");
  if (block.type === "react.tool.result" && block.path && get().panel === "canvas" && get().panelItem !== "") {
    const key = fileKey(block.path);
    const file = open.timeline.artifacts.get(key);
    if (file?.external && file.path === block.path && channelOf(block) !== "timeline_text") followFile(key);
  }
  if (block.type === "turn.header") return { ...open, problem: "" };
  return open;
}

function channelOf(block: Block): string {
  const digest = meta(block, "digest");
  return isObject(digest) ? asString(digest["channel"]) : "";
}

function renameInList(id: string, title: string): void {
  set({ conversations: get().conversations.map((one) => (one.id === id ? { ...one, title } : one)) });
}

/** Send a message to the open conversation, or start a new one, and return its id. Throws the server's error. */
export async function sendMessage(text: string, mode: SendMode, files: File[] = [], options: UploadOptions = {}): Promise<string> {
  const { open, bundle } = get();
  const one = { text, mode };
  if (open) updateOpen(open.id, (before) => ({ ...before, sending: [...before.sending, one] }));
  try {
    const receipt = await (mode === "steer" && open ? sendSteer(open.id, text, files, options) : sendText(open ? { conversation_id: open.id } : bundle ? { bundle } : {}, text, files, options));
    if (!open) void listConversations();
    return receipt.conversation_id;
  } catch (error) {
    if (open) updateOpen(open.id, (before) => ({ ...before, sending: before.sending.filter((other) => other !== one) }));
    throw error;
  }
}

function sendSteer(id: string, text: string, files: File[], options: UploadOptions): Promise<SendReceipt> {
  const names = { conversation_id: id };
  const body = { kind: "steer", text };
  return files.length ? send(addressOf("post_event", names), body, files, options) : call("post_event", { ...names, body });
}

function sendText(to: { conversation_id?: string; bundle?: string }, message: string, files: File[], options: UploadOptions): Promise<SendReceipt> {
  const body = { message, ...to };
  return files.length ? send(addressOf("post_message", {}), body, files, options) : call("post_message", { body });
}

function send(address: string, body: object, files: File[], options: UploadOptions): Promise<SendReceipt> {
  return upload(address, formOf(body, files), options.progress ?? (() => undefined), options.abort);
}

/** Request a summary of the older parts of the open conversation; returns what the user is told. */
export async function compactConversation(focus: string): Promise<string> {
  const { open } = get();
  if (!open) return "There is nothing to compact yet.";
  const { status } = await call("post_event", { conversation_id: open.id, body: { kind: "compact", text: focus } });
  updateOpen(open.id, (before) => ({ ...before, endRequests: before.endRequests + 1 }));
  return status === "queued" ? "The conversation is compacted before the next round." : "The conversation is being compacted.";
}

interface UploadOptions {
  progress?: (share: number) => void;
  abort?: AbortSignal;
}

function formOf(body: object, files: File[]): FormData {
  const form = new FormData();
  for (const [key, value] of Object.entries(body)) form.append(key, String(value));
  for (const file of files) form.append("files", file, file.name);
  return form;
}

/** Stop the running turn. */
export async function stopTurn(): Promise<void> {
  const { open } = get();
  if (open) await call("post_event", { conversation_id: open.id, body: { kind: "steer", text: "" } });
}
