/** Folds stored blocks into the timeline that the page shows. Unchanged turns and items keep their identity. */
import { asNumber, asString, type Block, isObject, meta, objectOf, table } from "./blocks";
import type { Artifact, Call, DeclaredChannel, FormAnswer, Item, Message, Source, TimelineEvent, Turn } from "./model";
import { parsePartialReply } from "./partialReply";

export interface Timeline {
  tail: number;
  title: string;
  blocks: Block[];
  turns: Turn[];
  sources: Map<number, Source>;
  artifacts: Map<string, Artifact>;
  /** The paths of the pinned blocks, each with the text of its first block. */
  pins: Map<string, string>;
  /** The answers to forms, by the ids of the calls that asked. */
  formAnswers: Map<string, FormAnswer>;
  forkedFrom: string;
  /** The bundle of the conversation; empty if it has none. */
  bundle: string;
}

export function emptyTimeline(): Timeline {
  return { tail: 0, title: "", blocks: [], turns: [], sources: new Map(), artifacts: new Map(), pins: new Map(), formAnswers: new Map(), forkedFrom: "", bundle: "" };
}

/** Apply the next block; known blocks are ignored. The timeline is updated in place, its turns and items are replaced. */
export function applyBlock(timeline: Timeline, seq: number, block: Block, timings: StreamTimings = NO_TIMINGS): void {
  if (seq <= timeline.tail) return;
  timeline.tail = seq;
  timeline.blocks.push(block);
  const fold = FOLDS[block.type];
  if (fold) fold(timeline, seq, block, timings);
}

/** Timings that only the stream shows, because no block stores them; 0 means unknown. */
export interface StreamTimings {
  thinkingMs: number;
  /** How long ago the model started to write something other than thinking. */
  outputMs: number;
}

const NO_TIMINGS: StreamTimings = { thinkingMs: 0, outputMs: 0 };

/** Return the title, or the beginning of the first message while there is none. */
export function conversationTitle({ title, turns }: Timeline): string {
  if (title) return title;
  const first = turns[0]?.items.find((item): item is Message => item.kind === "message" && item.text !== "");
  const words = first && !first.event ? first.text.trim().replace(/\s+/g, " ") : "";
  return words.length > MAX_TITLE_CHARS ? `${words.slice(0, MAX_TITLE_CHARS)}…` : words;
}

const MAX_TITLE_CHARS = 60;

/** Mark the messages up to `seen` as seen by the model. */
export function markSeen(timeline: Timeline, turnId: string, seen: number, ts: string): void {
  updateTurn(timeline, turnId, (turn) => ({
    ...turn,
    items: turn.items.map((item) => (item.kind === "message" && item.seq <= seen && !item.seenTs ? { ...item, seenTs: ts } : item)),
  }));
}

/** Append output of the running tool. With nested calls it belongs to the outer one, the program. */
export function addOutput(timeline: Timeline, turnId: string, text: string): void {
  updateTurn(timeline, turnId, (turn) => {
    const running = turn.items.find((item): item is Call => item.kind === "call" && !item.endedTs);
    return running ? replaceItem(turn, running, { ...running, output: (running.output + text).slice(-20000) }) : turn;
  });
}

/** Clear the output of running tools, because the server resends it. */
export function clearOutput(timeline: Timeline, turnId: string): void {
  updateTurn(timeline, turnId, (turn) => ({
    ...turn,
    items: turn.items.map((item) => (item.kind === "call" && !item.endedTs && item.output ? { ...item, output: "" } : item)),
  }));
}

type Fold = (timeline: Timeline, seq: number, block: Block, timings: StreamTimings) => void;

const FOLDS = table<Fold>({
  "conv.header": (timeline, _seq, block) => {
    const header = objectOf(block.text);
    timeline.bundle = asString(header["bundle"]);
    const forked = header["forked_from"];
    timeline.forkedFrom = isObject(forked) ? asString(forked["conversation_id"]) : "";
  },
  "conv.title": (timeline, _seq, block) => {
    timeline.title = block.text ?? "";
  },
  "conv.sources.added": foldSources,
  "conv.range.summary": (timeline, seq, block) =>
    addItem(timeline, block, event(seq, "compaction", "Earlier messages were summarized", block.text ?? "")),
  "conv.erased": (timeline, seq, block) => addItem(timeline, block, event(seq, "erased", "Content was erased here", block.text ?? "")),
  "turn.header": (timeline, seq, block) => {
    timeline.turns = [...timeline.turns, newTurn(seq, block)];
  },
  "react.turn.end": (timeline, seq, block) =>
    updateTurn(timeline, block.turn_id, (turn) => ({
      ...endRetries(turn, asString(meta(block, "reason")) === "provider_error"),
      endedTs: block.ts,
      endSeq: seq,
      reason: asString(meta(block, "reason")),
      endText: block.text ?? "",
    })),
  "user.prompt": (timeline, seq, block) => addItem(timeline, block, message(seq, block, "prompt", "")),
  "user.followup": (timeline, seq, block) => addItem(timeline, block, message(seq, block, "followup", "Follow-up")),
  "user.steer": (timeline, seq, block) => addItem(timeline, block, message(seq, block, "steer", block.text ? "Steer" : "Stop")),
  "external.event": foldExternalEvent,
  "user.attachment.meta": foldAttachment,
  "user.attachment": (timeline, seq, block) => foldArtifact(timeline, seq, block, "attachment", true),
  "turn.feedback": (timeline, _seq, block) => {
    if (meta(block, "origin") === "machine") return;
    updateTurn(timeline, block.turn_id, (turn) => ({
      ...turn,
      reaction: reactionOf(meta(block, "reaction")),
      reactionText: block.text ?? "",
    }));
  },
  "react.round.start": (timeline, _seq, block) =>
    updateTurn(timeline, block.turn_id, (turn) => ({ ...turn, rounds: Math.max(turn.rounds, asNumber(meta(block, "round"))) })),
  "react.model.call": (timeline, _seq, block) =>
    updateTurn(timeline, block.turn_id, (turn) => ({ ...turn, model: asString(meta(block, "model")) })),
  "react.model.outcome": foldOutcome,
  "react.thinking": (timeline, seq, block, { thinkingMs, outputMs }) => {
    const ms = thinkingMs || (outputMs ? Math.max(0, roundMs(timeline, block) - outputMs) : 0);
    addItem(timeline, block, { kind: "thinking", seq, text: block.text ?? "", ms });
  },
  "react.notes": (timeline, seq, block) => addItem(timeline, block, { kind: "notes", seq, text: block.text ?? "" }),
  "react.channel": (timeline, seq, block) =>
    addItem(timeline, block, {
      kind: "channel",
      seq,
      path: block.path ?? "",
      channel: asString(meta(block, "channel")),
      mime: block.mime,
      widget: asString(meta(block, "widget")),
      text: block.text ?? "",
      cut: meta(block, "cut") === true,
    }),
  "react.tool.code": (timeline, seq, block) => foldCode(timeline, seq, block),
  "react.tool.call": foldCall,
  "react.tool.result": foldResult,
  "react.notice": foldNotice,
  "react.gate": (timeline, _seq, block) => {
    if (meta(block, "verdict") === "refuse")
      updateCall(timeline, block, asString(meta(block, "tool_call_id")), (call) => ({ ...call, gate: block.text ?? "" }));
  },
  "react.approval.request": foldApproval,
  "react.approval.decision": (timeline, _seq, block) =>
    updateCall(timeline, block, asString(meta(block, "tool_call_id")), (call) => ({
      ...call,
      endedTs: call.toolId === "model" ? block.ts : call.endedTs,
      approval: {
        ...(call.approval ?? { text: "", policy: "", askedTs: "" }),
        decidedTs: block.ts,
        decided: meta(block, "approved") === true ? "allowed" : "refused",
        by: asString(meta(block, "by")),
        comment: block.text ?? "",
      },
    })),
  "react.plan": foldPlan,
  "react.hidden": (timeline, seq, block) => {
    timeline.pins = withoutPin(timeline.pins, asString(meta(block, "target")));
    addItem(timeline, block, event(seq, "hidden", "Hidden from the model", asString(meta(block, "target")) || (block.text ?? "")));
  },
  "react.pinned": foldPin,
  "react.compact.end": (timeline, seq, block) => addItem(timeline, block, event(seq, "compaction", compactionText(block), block.text ?? "")),
  "react.pruned": (timeline, seq, block) =>
    addItem(timeline, block, event(seq, "pruned", "Older steps were shortened", prunedText(block))),
  "assistant.completion": (timeline, seq, block) =>
    addItem(timeline, block, {
      kind: "answer",
      seq,
      path: block.path ?? "",
      text: block.text ?? "",
      n: asNumber(meta(block, "n")) || 1,
      sourcesUsed: numbersOf(meta(block, "sources_used")),
      followups: stringsOf(meta(block, "suggested_followups")),
      isUnformatted: meta(block, "unformatted") === true,
    }),
});

function reactionOf(value: unknown): Turn["reaction"] {
  return value === "ok" || value === "not_ok" || value === "neutral" ? value : "";
}

function newTurn(seq: number, block: Block): Turn {
  return {
    id: block.turn_id ?? "",
    n: asNumber(meta(block, "n")),
    startSeq: seq,
    startedTs: block.ts,
    endedTs: "",
    endSeq: 0,
    reason: "",
    failure: "",
    endText: "",
    items: [],
    channels: declaredChannels(meta(block, "channels")),
    usage: { input_tokens: 0, cache_read_tokens: 0, cache_write_tokens: 0, output_tokens: 0, cost_nano_usd: 0 },
    rounds: 0,
    model: "",
    reaction: "",
    reactionText: "",
  };
}

function foldExternalEvent(timeline: Timeline, seq: number, block: Block): void {
  const kind = asString(meta(block, "kind")) || "event";
  const { form, values } = kind === "form" && block.mime === "application/json" ? objectOf(block.text) : {};
  if (typeof form === "string" && isObject(values) && !timeline.formAnswers.has(form)) {
    timeline.formAnswers = new Map(timeline.formAnswers).set(form, { author: block.author, values });
  }
  addItem(timeline, block, { ...message(seq, block, "event", ""), event: kind, author: block.author });
}

function declaredChannels(value: unknown): DeclaredChannel[] {
  if (!Array.isArray(value)) return [];
  return value.filter(isObject).map((one) => ({ name: asString(one["name"]), mime: asString(one["mime"]), widget: asString(one["widget"]) }));
}

function message(seq: number, block: Block, type: Message["type"], label: string): Message {
  return { kind: "message", seq, path: block.path ?? "", type, label, event: "", author: "", mime: block.mime, text: block.text ?? "", ts: block.ts, seenTs: "", attachments: [] };
}

function event(seq: number, type: TimelineEvent["type"], text: string, detail: string): TimelineEvent {
  return { kind: "event", seq, type, text, detail, times: 1 };
}

function prunedText(block: Block): string {
  const cuts = meta(block, "cuts");
  return Array.isArray(cuts) ? `${cuts.length} ${cuts.length === 1 ? "step was" : "steps were"} replaced by a short stub` : "";
}

function foldPin(timeline: Timeline, seq: number, block: Block): void {
  const target = asString(meta(block, "target"));
  const before = timeline.pins;
  timeline.pins = withoutPin(before, target);
  // The server omits fields with their default, and a pin is set by default.
  if (meta(block, "pinned") !== false) {
    const pinned = timeline.blocks.find((one) => one.path === target);
    timeline.pins = new Map(timeline.pins).set(target, pinned?.text ?? "");
  } else if (block.author === "runtime") {
    addItem(timeline, block, event(seq, "notice", "A pinned block no longer fits the model's window", target));
  }
}

function withoutPin(pins: Map<string, string>, path: string): Map<string, string> {
  if (!pins.has(path)) return pins;
  const rest = new Map(pins);
  rest.delete(path);
  return rest;
}

function compactionText(block: Block): string {
  if (meta(block, "outcome") !== "completed") return "Nothing to compact";
  const turns = asNumber(meta(block, "turns"));
  const covered = asNumber(meta(block, "covered_tokens")).toLocaleString("en");
  const summary = asNumber(meta(block, "summary_tokens")).toLocaleString("en");
  return `Compacted ${turns} ${turns === 1 ? "turn" : "turns"}: ${covered} tokens became ${summary}`;
}

function foldSources(timeline: Timeline, _seq: number, block: Block): void {
  const rows = objectOf(block.text)["rows"];
  if (!Array.isArray(rows)) return;
  const sources = new Map(timeline.sources);
  for (const row of rows) {
    if (!isObject(row)) continue;
    const sid = asNumber(row["sid"]);
    sources.set(sid, {
      sid,
      source_type: asString(row["source_type"]),
      title: asString(row["title"]),
      url: asString(row["url"]),
      text: asString(row["text"]),
      domain: asString(row["domain"]),
      date: asString(row["published_time_iso"]) || asString(row["modified_time_iso"]) || asString(row["fetched_time_iso"]),
      mime: asString(row["mime"]),
      path: asString(row["artifact_path"]),
    });
  }
  timeline.sources = sources;
}

function foldAttachment(timeline: Timeline, _seq: number, block: Block): void {
  const digest = objectOf(block.text);
  const path = block.path ?? asString(digest["artifact_path"]);
  updateTurn(timeline, block.turn_id, (turn) => {
    const owner = turn.items.findLast((item): item is Message => item.kind === "message");
    if (!owner) return turn;
    const one = { path, name: nameOf(path), mime: asString(digest["mime"]), bytes: asNumber(digest["size_bytes"]) };
    return replaceItem(turn, owner, { ...owner, attachments: [...owner.attachments, one] });
  });
}

function foldOutcome(timeline: Timeline, seq: number, block: Block): void {
  const usage = meta(block, "usage");
  updateTurn(timeline, block.turn_id, (turn) => {
    const sum = { ...turn.usage };
    if (isObject(usage)) for (const key of Object.keys(sum) as (keyof typeof sum)[]) sum[key] += asNumber(usage[key]);
    return { ...turn, usage: sum };
  });
  const error = asString(meta(block, "error"));
  if ((asString(meta(block, "purpose")) || "decision") !== "decision") return;
  updateTurn(timeline, block.turn_id, (turn) => {
    if (!error) return { ...endRetries(turn, false), failure: "" };
    if (error === "steered") return insertItems(turn, ...interruptedReply(turn, seq, block));
    return { ...withRetry(turn, seq, block, error.replaceAll("_", " ")), failure: error };
  });
}

function interruptedReply(turn: Turn, seq: number, block: Block): Item[] {
  const reply = parsePartialReply(block.text ?? "");
  const steer = turn.items.findLast((item): item is Message => item.kind === "message" && item.type === "steer");
  const reason = steer?.text ? "steered" : "stopped";
  return Object.values(reply).some(Boolean) ? [{ kind: "interrupted", seq, reason, ...reply }] : [];
}

/** Return the index of the first of the last messages that no prompt contains yet. They stay below everything else. */
export function firstUnseenIndex(items: Item[]): number {
  return items.findLastIndex((item) => item.kind !== "message" || item.type === "prompt" || item.seenTs !== "") + 1;
}

/** Add items that the agent made without knowledge of the messages that it has not seen, so above them. */
function insertItems(turn: Turn, ...items: Item[]): Turn {
  return { ...turn, items: turn.items.toSpliced(firstUnseenIndex(turn.items), 0, ...items) };
}

/** Add a line for a failed model call. Consecutive failures share one line. */
function withRetry(turn: Turn, seq: number, block: Block, why: string): Turn {
  const last = turn.items[firstUnseenIndex(turn.items) - 1];
  const known = last?.kind === "event" && last.type === "retry" ? last : null;
  const times = (known?.times ?? 0) + 1;
  const reply = Object.values(parsePartialReply(block.text ?? "")).filter(Boolean).join("\n\n");
  const detail = [...new Set([known?.detail, asString(meta(block, "detail")), reply])].filter(Boolean).join("\n");
  const one: TimelineEvent = { ...event(known?.seq ?? seq, "retry", `The model call failed${timesText(times)}: ${why}.${RETRYING}`, detail), times };
  return known ? replaceItem(turn, known, one) : insertItems(turn, one);
}

const RETRYING = " Retrying…";
const RETRIED = " The call was retried.";

/** Change the line about retries once they are over. */
function endRetries(turn: Turn, hasGivenUp: boolean): Turn {
  const at = turn.items.findLastIndex((item) => item.kind === "event" && item.type === "retry");
  const last = turn.items[at];
  if (last?.kind !== "event" || !last.text.endsWith(RETRYING)) return turn;
  const text = last.text.slice(0, -RETRYING.length) + (hasGivenUp ? "" : RETRIED);
  return { ...turn, items: turn.items.with(at, { ...last, text }) };
}

function timesText(times: number): string {
  return times === 1 ? "" : ` ${times} times`;
}

function foldCode(timeline: Timeline, seq: number, block: Block): void {
  const id = asString(meta(block, "tool_call_id"));
  const known = { code: block.text ?? "" };
  // Edition 1 records the program before its call, edition 2 after it.
  if (!updateCall(timeline, block, id, (before) => ({ ...before, ...known }))) addItem(timeline, block, newCall(seq, id, block.ts, known));
}

function newCall(seq: number, id: string, ts: string, known: Partial<Call>): Call {
  return {
    kind: "call",
    seq,
    id,
    toolId: "",
    params: "",
    code: "",
    startedTs: ts,
    endedTs: "",
    results: [],
    notices: [],
    error: "",
    output: "",
    approval: null,
    gate: "",
    ...known,
  };
}

function foldCall(timeline: Timeline, seq: number, block: Block): void {
  const call = objectOf(block.text);
  const id = asString(call["tool_call_id"]);
  const params = call["params"];
  const known = {
    toolId: asString(call["tool_id"]),
    params: typeof params === "string" ? params : JSON.stringify(params ?? {}, null, 2),
    startedTs: block.ts,
  };
  if (!updateCall(timeline, block, id, (before) => ({ ...before, ...known }))) addItem(timeline, block, newCall(seq, id, block.ts, known));
}

function foldResult(timeline: Timeline, seq: number, block: Block): void {
  const givenRole = asString(meta(block, "role"));
  const role = givenRole === "content" || givenRole === "digest" ? givenRole : block.path?.startsWith("fi:") ? "content" : "status";
  const error = meta(block, "error");
  const digest = meta(block, "digest");
  const channel = isObject(digest) ? asString(digest["channel"]) : "";
  const id = asString(meta(block, "tool_call_id"));
  updateCall(timeline, block, id, (call) => ({
    ...call,
    endedTs: block.ts,
    error: isObject(error) ? asString(error["message"]) : call.error || (role === "status" ? emptyReadError(call, block) : ""),
    results: [...call.results, { seq, role, text: block.text ?? "", mime: block.mime, path: block.path ?? "", channel }],
  }));
  if (role === "content") {
    const external = !isObject(digest) || digest["visibility"] !== "internal";
    foldArtifact(timeline, seq, block, isObject(digest) ? asString(digest["kind"]) : "", external);
  }
}

/** Return an error if a read found none of its paths. Its status lists the missing ones. */
function emptyReadError(call: Call, block: Block): string {
  if (call.toolId !== "react.read") return "";
  const status = objectOf(block.text);
  const missing = [...stringsOf(status["missing"]), ...stringsOf(status["missing_skills"])];
  return missing.length && !(Array.isArray(status["items"]) && status["items"].length) ? `Not found: ${missing.join(", ")}` : "";
}

function foldArtifact(timeline: Timeline, seq: number, block: Block, kind: string, external: boolean): void {
  const path = block.path ?? "";
  if (!path.startsWith("fi:")) return;
  const digest = meta(block, "digest");
  const bytes = isObject(digest) ? asNumber(digest["size_bytes"]) : new Blob([block.text ?? ""]).size;
  const version = { seq, ts: block.ts, turnId: block.turn_id ?? "", text: block.text ?? null, bytes };
  const name = nameOf(path);
  const key = kind === "attachment" ? path : fileKey(path);
  const before = timeline.artifacts.get(key);
  const artifacts = new Map(timeline.artifacts);
  artifacts.set(key, { path, name, mime: block.mime, kind: kind || before?.kind || "", versions: [...(before?.versions ?? []), version], external });
  timeline.artifacts = artifacts;
}

/** Return the path without its turn, so that the same file of later turns becomes a new version. */
export function fileKey(path: string): string {
  return path.replace(/^fi:[^.]*\./, "");
}

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

function foldNotice(timeline: Timeline, seq: number, block: Block): void {
  const notice = { seq, code: asString(meta(block, "code")), text: block.text ?? "" };
  const known = updateCall(timeline, block, asString(meta(block, "tool_call_id")), (call) => ({ ...call, notices: [...call.notices, notice] }));
  if (!known) addItem(timeline, block, event(seq, "notice", "The agent received an error notice", `${notice.code}: ${notice.text}`));
}

function foldApproval(timeline: Timeline, seq: number, block: Block): void {
  const approval = { text: block.text ?? "", policy: asString(meta(block, "policy")), askedTs: block.ts, decided: "" as const, decidedTs: "", by: "", comment: "" };
  const id = asString(meta(block, "tool_call_id"));
  if (updateCall(timeline, block, id, (call) => ({ ...call, approval }))) return;
  // An approval of a model call has no tool call before it.
  addItem(timeline, block, newCall(seq, id, block.ts, { toolId: asString(meta(block, "tool_id")), approval }));
}

function foldPlan(timeline: Timeline, seq: number, block: Block): void {
  const snapshot = objectOf(block.text);
  const status = isObject(snapshot["status"]) ? snapshot["status"] : {};
  const steps = stringsOf(snapshot["steps"]).map((text, index) => ({ text, status: asString(status[String(index + 1)]) || "pending" }));
  const plan = { kind: "plan" as const, seq, id: asString(snapshot["plan_id"]), steps, change: asString(meta(block, "change")) };
  updateTurn(timeline, block.turn_id, (turn) => {
    const known = turn.items.find((item) => item.kind === "plan" && item.id === plan.id);
    return known ? replaceItem(turn, known, { ...plan, seq: known.seq }) : insertItems(turn, plan);
  });
}

/** Return how long the model took for the reply that contains this thinking block. */
function roundMs(timeline: Timeline, block: Block): number {
  for (let at = timeline.blocks.length - 1; at >= 0 && at > timeline.blocks.length - 12; at--) {
    const before = timeline.blocks[at];
    if (before?.type === "react.model.call") return Math.max(0, Date.parse(block.ts) - Date.parse(before.ts));
  }
  return 0;
}

function addItem(timeline: Timeline, block: Block, item: Item): void {
  const at = timeline.turns.length - 1;
  const id = block.turn_id && timeline.turns.some((turn) => turn.id === block.turn_id) ? block.turn_id : timeline.turns[at]?.id;
  updateTurn(timeline, id, (turn) => (item.kind === "message" ? { ...turn, items: [...turn.items, item] } : insertItems(turn, item)));
}

function updateTurn(timeline: Timeline, id: string | undefined, change: (turn: Turn) => Turn): void {
  const at = timeline.turns.findLastIndex((turn) => turn.id === id);
  const turn = timeline.turns[at];
  if (!turn) return;
  const changed = change(turn);
  if (changed !== turn) timeline.turns = timeline.turns.with(at, changed);
}

function updateCall(timeline: Timeline, block: Block, id: string, change: (call: Call) => Call): boolean {
  let known = false;
  if (!id) return false;
  updateTurn(timeline, block.turn_id, (turn) => {
    const call = turn.items.findLast((item): item is Call => item.kind === "call" && item.id === id);
    if (!call) return turn;
    known = true;
    return replaceItem(turn, call, change(call));
  });
  return known;
}

function replaceItem(turn: Turn, before: Item, after: Item): Turn {
  return { ...turn, items: turn.items.map((item) => (item === before ? after : item)) };
}

function stringsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((one): one is string => typeof one === "string") : [];
}

function numbersOf(value: unknown): number[] {
  return Array.isArray(value) ? value.filter((one): one is number => typeof one === "number") : [];
}
