/** The fold: one stored block after the other becomes what is shown. Turns and items that did not change keep their identity. */
import { type Block, figure, isObject, meta, objectOf, said, table } from "./blocks";
import type { Artifact, Call, Item, Mark, Message, Source, Turn } from "./model";
import { written } from "./written";

export interface Timeline {
  tail: number;
  title: string;
  blocks: Block[];
  turns: Turn[];
  sources: Map<number, Source>;
  artifacts: Map<string, Artifact>;
  forkedFrom: string;
}

export function emptyTimeline(): Timeline {
  return { tail: 0, title: "", blocks: [], turns: [], sources: new Map(), artifacts: new Map(), forkedFrom: "" };
}

/** Takes blocks in, in their order; what is known already is left aside. The timeline is changed in place, its parts are not. */
export function takeBlock(timeline: Timeline, seq: number, block: Block, heard: Heard = UNHEARD): void {
  if (seq <= timeline.tail) return;
  timeline.tail = seq;
  timeline.blocks.push(block);
  const fold = FOLDS[block.type];
  if (fold) fold(timeline, seq, block, heard);
}

/** What a listener knows of the reply that just ended, which no block has; 0 is unknown. */
export interface Heard {
  thoughtMs: number;
  /** How long ago something else than thoughts began. */
  restMs: number;
}

const UNHEARD: Heard = { thoughtMs: 0, restMs: 0 };

/** What was sent up to here was in a prompt. */
export function markSeen(timeline: Timeline, turnId: string, seen: number, ts: string): void {
  updateTurn(timeline, turnId, (turn) => ({
    ...turn,
    items: turn.items.map((item) => (item.kind === "message" && item.seq <= seen && !item.seenTs ? { ...item, seenTs: ts } : item)),
  }));
}

/** More of what a running tool prints; a program prints for itself while a call of its own runs. */
export function addOutput(timeline: Timeline, turnId: string, text: string): void {
  updateTurn(timeline, turnId, (turn) => {
    const running = turn.items.find((item): item is Call => item.kind === "call" && !item.endedTs);
    return running ? replaceItem(turn, running, { ...running, output: (running.output + text).slice(-20000) }) : turn;
  });
}

/** Forgets what running tools have printed: it is told again. */
export function forgetOutput(timeline: Timeline, turnId: string): void {
  updateTurn(timeline, turnId, (turn) => ({
    ...turn,
    items: turn.items.map((item) => (item.kind === "call" && !item.endedTs && item.output ? { ...item, output: "" } : item)),
  }));
}

type Fold = (timeline: Timeline, seq: number, block: Block, heard: Heard) => void;

const FOLDS = table<Fold>({
  "conv.header": (timeline, _seq, block) => {
    const forked = objectOf(block.text)["forked_from"];
    timeline.forkedFrom = isObject(forked) ? said(forked["conversation_id"]) : "";
  },
  "conv.title": (timeline, _seq, block) => {
    timeline.title = block.text ?? "";
  },
  "conv.sources.added": takeSources,
  "conv.range.summary": (timeline, seq, block) =>
    addItem(timeline, block, mark(seq, "compaction", "Earlier parts were summed up", block.text ?? "")),
  "conv.erased": (timeline, seq, block) => addItem(timeline, block, mark(seq, "erased", "Something was erased here", block.text ?? "")),
  "turn.header": (timeline, seq, block) => {
    timeline.turns = [...timeline.turns, newTurn(seq, block)];
  },
  "react.turn.end": (timeline, seq, block) =>
    updateTurn(timeline, block.turn_id, (turn) => ({
      ...triedEnough(turn, said(meta(block, "reason")) === "provider_error"),
      endedTs: block.ts,
      endSeq: seq,
      reason: said(meta(block, "reason")),
      endText: block.text ?? "",
    })),
  "user.prompt": (timeline, seq, block) => addItem(timeline, block, message(seq, block, "prompt", "")),
  "user.followup": (timeline, seq, block) => addItem(timeline, block, message(seq, block, "followup", "Follow-up")),
  "user.steer": (timeline, seq, block) => addItem(timeline, block, message(seq, block, "steer", block.text ? "Steer" : "Stop")),
  "external.event": (timeline, seq, block) =>
    addItem(timeline, block, message(seq, block, "event", said(meta(block, "kind")) || "Event")),
  "user.attachment.meta": takeAttachment,
  "user.attachment": (timeline, seq, block) => takeArtifact(timeline, seq, block, "attachment", true),
  "turn.feedback": (timeline, _seq, block) => {
    if (meta(block, "origin") === "machine") return;
    updateTurn(timeline, block.turn_id, (turn) => ({
      ...turn,
      reaction: said(meta(block, "reaction")),
      reactionText: block.text ?? "",
    }));
  },
  "react.round.start": (timeline, _seq, block) =>
    updateTurn(timeline, block.turn_id, (turn) => ({ ...turn, rounds: Math.max(turn.rounds, figure(meta(block, "round"))) })),
  "react.model.call": (timeline, _seq, block) =>
    updateTurn(timeline, block.turn_id, (turn) => ({ ...turn, model: said(meta(block, "model")) })),
  "react.model.outcome": takeOutcome,
  "react.thinking": (timeline, seq, block, { thoughtMs, restMs }) => {
    const ms = thoughtMs || (restMs ? Math.max(0, roundMs(timeline, block) - restMs) : 0);
    addItem(timeline, block, { kind: "thinking", seq, text: block.text ?? "", ms });
  },
  "react.notes": (timeline, seq, block) => addItem(timeline, block, { kind: "notes", seq, text: block.text ?? "" }),
  "react.tool.code": (timeline, seq, block) => takeCode(timeline, seq, block),
  "react.tool.call": takeCall,
  "react.tool.result": takeResult,
  "react.notice": takeNotice,
  "react.gate": (timeline, _seq, block) => {
    if (meta(block, "verdict") === "refuse")
      updateCall(timeline, block, said(meta(block, "tool_call_id")), (call) => ({ ...call, gate: block.text ?? "" }));
  },
  "react.approval.request": takeApproval,
  "react.approval.decision": (timeline, _seq, block) =>
    updateCall(timeline, block, said(meta(block, "tool_call_id")), (call) => ({
      ...call,
      endedTs: call.toolId === "model" ? block.ts : call.endedTs,
      approval: {
        ...(call.approval ?? { text: "", policy: "", askedTs: "" }),
        decidedTs: block.ts,
        decided: meta(block, "approved") === true ? "allowed" : "refused",
        by: said(meta(block, "by")),
        words: block.text ?? "",
      },
    })),
  "react.plan": takePlan,
  "react.hidden": (timeline, seq, block) =>
    addItem(timeline, block, mark(seq, "hidden", "Put out of sight", said(meta(block, "target")) || (block.text ?? ""))),
  "react.pruned": (timeline, seq, block) =>
    addItem(timeline, block, mark(seq, "pruned", "Older steps were shortened", pruned(block))),
  "assistant.completion": (timeline, seq, block) =>
    addItem(timeline, block, {
      kind: "answer",
      seq,
      text: block.text ?? "",
      n: figure(meta(block, "n")) || 1,
      sourcesUsed: numbers(meta(block, "sources_used")),
      followups: texts(meta(block, "suggested_followups")),
    }),
});

function newTurn(seq: number, block: Block): Turn {
  return {
    id: block.turn_id ?? "",
    n: figure(meta(block, "n")),
    startSeq: seq,
    startedTs: block.ts,
    endedTs: "",
    endSeq: 0,
    reason: "",
    failure: "",
    endText: "",
    items: [],
    usage: { input_tokens: 0, cache_read_tokens: 0, cache_write_tokens: 0, output_tokens: 0, cost_nano_usd: 0 },
    rounds: 0,
    model: "",
    reaction: "",
    reactionText: "",
  };
}

function message(seq: number, block: Block, how: Message["how"], label: string): Message {
  return { kind: "message", seq, how, label, text: block.text ?? "", ts: block.ts, seenTs: "", attachments: [] };
}

function mark(seq: number, how: Mark["how"], text: string, detail: string): Mark {
  return { kind: "mark", seq, how, text, detail, times: 1 };
}

function pruned(block: Block): string {
  const cuts = meta(block, "cuts");
  return Array.isArray(cuts) ? `${cuts.length} ${cuts.length === 1 ? "part" : "parts"} now stand as a short card` : "";
}

function takeSources(timeline: Timeline, _seq: number, block: Block): void {
  const rows = objectOf(block.text)["rows"];
  if (!Array.isArray(rows)) return;
  const sources = new Map(timeline.sources);
  for (const row of rows) {
    if (!isObject(row)) continue;
    const sid = figure(row["sid"]);
    sources.set(sid, {
      sid,
      source_type: said(row["source_type"]),
      title: said(row["title"]),
      url: said(row["url"]),
      text: said(row["text"]),
      domain: said(row["domain"]),
      date: said(row["published_time_iso"]) || said(row["modified_time_iso"]) || said(row["fetched_time_iso"]),
      mime: said(row["mime"]),
      path: said(row["artifact_path"]),
    });
  }
  timeline.sources = sources;
}

function takeAttachment(timeline: Timeline, _seq: number, block: Block): void {
  const digest = objectOf(block.text);
  const path = block.path ?? said(digest["artifact_path"]);
  updateTurn(timeline, block.turn_id, (turn) => {
    const owner = turn.items.findLast((item): item is Message => item.kind === "message");
    if (!owner) return turn;
    const one = { path, name: nameOf(path), mime: said(digest["mime"]), bytes: figure(digest["size_bytes"]) };
    return replaceItem(turn, owner, { ...owner, attachments: [...owner.attachments, one] });
  });
}

function takeOutcome(timeline: Timeline, seq: number, block: Block): void {
  const usage = meta(block, "usage");
  updateTurn(timeline, block.turn_id, (turn) => {
    const sum = { ...turn.usage };
    if (isObject(usage)) for (const key of Object.keys(sum) as (keyof typeof sum)[]) sum[key] += figure(usage[key]);
    return { ...turn, usage: sum };
  });
  const error = said(meta(block, "error"));
  if ((said(meta(block, "purpose")) || "decision") !== "decision") return;
  updateTurn(timeline, block.turn_id, (turn) => {
    if (!error) return { ...triedEnough(turn, false), failure: "" };
    if (error === "steered") return { ...turn, items: turn.items.toSpliced(unseenFrom(turn.items), 0, ...cutOff(turn, seq, block)) };
    return { ...turn, failure: error, items: failedAgain(turn.items, seq, block, error.replaceAll("_", " ")) };
  });
}

function cutOff(turn: Turn, seq: number, block: Block): Item[] {
  const until = written(block.text ?? "");
  const word = turn.items.findLast((item): item is Message => item.kind === "message" && item.how === "steer");
  const how = word?.text ? "steered" : "stopped";
  return Object.values(until).some(Boolean) ? [{ kind: "cut", seq, how, ...until }] : [];
}

/** Where those last messages begin that came while the reply was written. */
function unseenFrom(items: Item[]): number {
  return items.findLastIndex((item) => item.kind !== "message" || item.how === "prompt" || item.seenTs !== "") + 1;
}

/** One line for failures that follow each other. */
function failedAgain(items: Item[], seq: number, block: Block, why: string): Item[] {
  const last = items.at(-1);
  const again = last?.kind === "mark" && last.how === "retry" ? last : null;
  const times = (again?.times ?? 0) + 1;
  const until = Object.values(written(block.text ?? "")).filter(Boolean).join("\n\n");
  const detail = [...new Set([again?.detail, said(meta(block, "detail")), until])].filter(Boolean).join("\n");
  const one: Mark = { ...mark(again?.seq ?? seq, "retry", `The model did not answer${often(times)}: ${why}. It is asked again…`, detail), times };
  return again ? [...items.slice(0, -1), one] : [...items, one];
}

function triedEnough(turn: Turn, gaveUp: boolean): Turn {
  const at = turn.items.findLastIndex((item) => item.kind === "mark" && item.how === "retry");
  const last = turn.items[at];
  if (last?.kind !== "mark" || !last.text.endsWith(" It is asked again…")) return turn;
  const text = last.text.replace(/ It is asked again…$/, gaveUp ? "" : " It was asked again.");
  return { ...turn, items: turn.items.with(at, { ...last, text }) };
}

function often(times: number): string {
  return times === 1 ? "" : ` ${times} times`;
}

function takeCode(timeline: Timeline, seq: number, block: Block): void {
  const id = said(meta(block, "tool_call_id"));
  addItem(timeline, block, newCall(seq, id, block.ts, { code: block.text ?? "" }));
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

function takeCall(timeline: Timeline, seq: number, block: Block): void {
  const call = objectOf(block.text);
  const id = said(call["tool_call_id"]);
  const params = call["params"];
  const known = {
    toolId: said(call["tool_id"]),
    params: typeof params === "string" ? params : JSON.stringify(params ?? {}, null, 2),
    startedTs: block.ts,
  };
  if (!updateCall(timeline, block, id, (before) => ({ ...before, ...known }))) addItem(timeline, block, newCall(seq, id, block.ts, known));
}

function takeResult(timeline: Timeline, seq: number, block: Block): void {
  const said_role = said(meta(block, "role"));
  const role = said_role === "content" || said_role === "digest" ? said_role : block.path?.startsWith("fi:") ? "content" : "status";
  const error = meta(block, "error");
  const id = said(meta(block, "tool_call_id"));
  updateCall(timeline, block, id, (call) => ({
    ...call,
    endedTs: block.ts,
    error: isObject(error) ? said(error["message"]) : call.error || (role === "status" ? nothingRead(call, block) : ""),
    results: [...call.results, { seq, role, text: block.text ?? "", mime: block.mime, path: block.path ?? "" }],
  }));
  if (role === "content") {
    const digest = meta(block, "digest");
    const external = !isObject(digest) || digest["visibility"] !== "internal";
    takeArtifact(timeline, seq, block, isObject(digest) ? said(digest["kind"]) : "", external);
  }
}

/** A read tells of paths that lead nowhere in its status; one that found nothing at all has failed. */
function nothingRead(call: Call, block: Block): string {
  if (call.toolId !== "react.read") return "";
  const status = objectOf(block.text);
  const missing = [...texts(status["missing"]), ...texts(status["missing_skills"])];
  return missing.length && !(Array.isArray(status["items"]) && status["items"].length) ? `Not found: ${missing.join(", ")}` : "";
}

function takeArtifact(timeline: Timeline, seq: number, block: Block, kind: string, external: boolean): void {
  const path = block.path ?? "";
  if (!path.startsWith("fi:")) return;
  const digest = meta(block, "digest");
  const bytes = isObject(digest) ? figure(digest["size_bytes"]) : new Blob([block.text ?? ""]).size;
  const version = { seq, ts: block.ts, turnId: block.turn_id ?? "", text: block.text ?? null, bytes };
  const name = nameOf(path);
  const key = kind === "attachment" ? path : fileKey(path);
  const before = timeline.artifacts.get(key);
  const artifacts = new Map(timeline.artifacts);
  artifacts.set(key, { path, name, mime: block.mime, kind: kind || before?.kind || "", versions: [...(before?.versions ?? []), version], external });
  timeline.artifacts = artifacts;
}

/** The same file in later turns is a version of it: its path without the turn. */
export function fileKey(path: string): string {
  return path.replace(/^fi:[^.]*\./, "");
}

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

function takeNotice(timeline: Timeline, seq: number, block: Block): void {
  const notice = { seq, code: said(meta(block, "code")), text: block.text ?? "" };
  const known = updateCall(timeline, block, said(meta(block, "tool_call_id")), (call) => ({ ...call, notices: [...call.notices, notice] }));
  if (!known) addItem(timeline, block, mark(seq, "notice", "The agent was told of a problem", `${notice.code}: ${notice.text}`));
}

function takeApproval(timeline: Timeline, seq: number, block: Block): void {
  const approval = { text: block.text ?? "", policy: said(meta(block, "policy")), askedTs: block.ts, decided: "" as const, decidedTs: "", by: "", words: "" };
  const id = said(meta(block, "tool_call_id"));
  if (updateCall(timeline, block, id, (call) => ({ ...call, approval }))) return;
  // The model itself is asked only after that, without a call.
  addItem(timeline, block, newCall(seq, id, block.ts, { toolId: said(meta(block, "tool_id")), approval }));
}

function takePlan(timeline: Timeline, seq: number, block: Block): void {
  const snapshot = objectOf(block.text);
  const status = isObject(snapshot["status"]) ? snapshot["status"] : {};
  const steps = texts(snapshot["steps"]).map((text, index) => ({ text, status: said(status[String(index + 1)]) || "pending" }));
  const plan = { kind: "plan" as const, seq, id: said(snapshot["plan_id"]), steps, change: said(meta(block, "change")) };
  updateTurn(timeline, block.turn_id, (turn) => {
    const known = turn.items.find((item) => item.kind === "plan" && item.id === plan.id);
    return known ? replaceItem(turn, known, { ...plan, seq: known.seq }) : { ...turn, items: [...turn.items, plan] };
  });
}

/** How long the model took for the reply that the thinking stands in. */
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
  updateTurn(timeline, id, (turn) => ({ ...turn, items: [...turn.items, item] }));
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

function texts(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((one): one is string => typeof one === "string") : [];
}

function numbers(value: unknown): number[] {
  return Array.isArray(value) ? value.filter((one): one is number => typeof one === "number") : [];
}
