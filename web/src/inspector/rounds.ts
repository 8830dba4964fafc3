/** Rounds: each request to the model with what it used, what ran after it, and what was forgotten before it. */
import type { Schemas } from "../api/client";
import { type Block, figure, isObject, meta, objectOf, said, table } from "../timeline/blocks";
import type { Timeline } from "../timeline/fold";

export interface Round {
  /** Its place in the strip, from 0. */
  at: number;
  /** The seq of its request. */
  seq: number;
  turnId: string;
  turn: number;
  round: number;
  attempt: number;
  model: string;
  startedTs: string;
  endedTs: string;
  expected: Expected | null;
  used: Used;
  tools: string[];
  failed: number;
  /** What made the prompt shorter since the round before. */
  forgot: ("summed up" | "shortened" | "put away")[];
  /** What everything had cost when this round was over. */
  spent: number;
}

interface Used {
  read: number;
  written: number;
  plain: number;
  output: number;
  cost: number;
}

type Expected = Pick<Schemas["CacheForecast"], "read_tokens" | "written_5m_tokens" | "written_1h_tokens" | "uncached_tokens">;

interface Folded {
  /** How many blocks were taken in. */
  taken: number;
  rounds: Round[];
  turn: number;
  spent: number;
  forgot: Round["forgot"];
  isChanged: boolean;
}

const folded = new WeakMap<Timeline, Folded>();

/** The rounds so far, another list where one changed; blocks that were taken in are not looked at again. */
export function roundsOf(timeline: Timeline): Round[] {
  let state = folded.get(timeline);
  if (!state) folded.set(timeline, (state = { taken: 0, rounds: [], turn: 0, spent: 0, forgot: [], isChanged: false }));
  for (; state.taken < timeline.blocks.length; state.taken++) take(state, state.taken + 1, timeline.blocks[state.taken]!);
  if (state.isChanged) state.rounds = [...state.rounds];
  state.isChanged = false;
  return state.rounds;
}

/** The tokens of a request as its provider counted them; as they were expected where it said nothing of its cache. */
export function tokensOf({ used, expected }: Round): { read: number; written: number; plain: number; isReported: boolean } {
  if (used.read || used.written || !expected) return { ...used, isReported: true };
  return {
    read: figure(expected.read_tokens),
    written: figure(expected.written_5m_tokens) + figure(expected.written_1h_tokens),
    plain: figure(expected.uncached_tokens),
    isReported: false,
  };
}

const FORGETS = table<Round["forgot"][number]>({
  "conv.range.summary": "summed up",
  "react.pruned": "shortened",
  "react.hidden": "put away",
});

function take(state: Folded, seq: number, block: Block): void {
  const last = state.rounds.at(-1);
  const forgot = FORGETS[block.type];
  if (forgot) state.forgot.push(forgot);
  if (block.type === "turn.header") state.turn = figure(meta(block, "n")) || state.turn + 1;
  else if (block.type === "react.model.call") called(state, seq, block);
  else if (block.type === "react.model.outcome") answered(state, block);
  else if (last && block.type === "react.tool.call") change(state, { ...last, tools: [...last.tools, said(objectOf(block.text)["tool_id"])] });
  else if (last && block.type === "react.tool.result" && isObject(meta(block, "error"))) change(state, { ...last, failed: last.failed + 1 });
}

/** Titles and summaries are asked for beside the rounds: they cost, and are no rounds. */
function isDecision(block: Block): boolean {
  return (said(meta(block, "purpose")) || "decision") === "decision";
}

function called(state: Folded, seq: number, block: Block): void {
  if (!isDecision(block)) return;
  const cache = meta(block, "cache");
  change(state, {
    at: state.rounds.length,
    seq,
    turnId: block.turn_id ?? "",
    turn: state.turn,
    round: figure(meta(block, "round")),
    attempt: figure(meta(block, "attempt")) || 1,
    model: said(meta(block, "model")),
    startedTs: block.ts,
    endedTs: "",
    expected: isObject(cache) ? (cache as unknown as Expected) : null,
    used: { read: 0, written: 0, plain: 0, output: 0, cost: 0 },
    tools: [],
    failed: 0,
    forgot: state.forgot,
    spent: state.spent,
  });
  state.forgot = [];
}

function answered(state: Folded, block: Block): void {
  const usage = meta(block, "usage");
  const told = isObject(usage) ? usage : {};
  state.spent += figure(told["cost_nano_usd"]);
  const last = state.rounds.at(-1);
  if (!last) return;
  if (!isDecision(block)) return change(state, { ...last, spent: state.spent });
  const used = {
    read: figure(told["cache_read_tokens"]),
    written: figure(told["cache_write_tokens"]),
    plain: figure(told["input_tokens"]),
    output: figure(told["output_tokens"]),
    cost: figure(told["cost_nano_usd"]),
  };
  change(state, { ...last, endedTs: block.ts, used, spent: state.spent });
}

function change(state: Folded, round: Round): void {
  state.rounds[round.at] = round;
  state.isChanged = true;
}
