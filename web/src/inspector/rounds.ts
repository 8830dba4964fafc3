/** Rounds: each model call with its usage, the tool calls after it, and the context reductions before it. */
import type { CacheForecast } from "../api/client";
import { asNumber, asString, type Block, isObject, meta, objectOf, table } from "../timeline/blocks";
import type { Timeline } from "../timeline/fold";

export interface Round {
  /** The index of the round, from 0. */
  at: number;
  /** The seq of the model call's block. */
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
  /** What made the prompt shorter since the previous round. */
  reductions: ("compacted" | "pruned" | "hidden")[];
  /** The total cost up to the end of this round, in nano-USD. */
  spent: number;
}

interface Used {
  read: number;
  written: number;
  plain: number;
  output: number;
  cost: number;
}

type Expected = Pick<CacheForecast, "read_tokens" | "written_5m_tokens" | "written_1h_tokens" | "uncached_tokens">;

interface RoundsState {
  /** How many blocks have been applied. */
  applied: number;
  rounds: Round[];
  turn: number;
  spent: number;
  reductions: Round["reductions"];
  isChanged: boolean;
}

const states = new WeakMap<Timeline, RoundsState>();

/** Return the rounds so far, as a new list if one changed. Only new blocks are processed. */
export function roundsOf(timeline: Timeline): Round[] {
  let state = states.get(timeline);
  if (!state) states.set(timeline, (state = { applied: 0, rounds: [], turn: 0, spent: 0, reductions: [], isChanged: false }));
  for (; state.applied < timeline.blocks.length; state.applied++) apply(state, state.applied + 1, timeline.blocks[state.applied]!);
  if (state.isChanged) state.rounds = [...state.rounds];
  state.isChanged = false;
  return state.rounds;
}

/** Return the tokens of a call as the provider reported them, or as estimated if it did not report its cache usage. */
export function tokensOf({ used, expected }: Round): { read: number; written: number; plain: number; isReported: boolean } {
  if (used.read || used.written || !expected) return { ...used, isReported: true };
  return {
    read: asNumber(expected.read_tokens),
    written: asNumber(expected.written_5m_tokens) + asNumber(expected.written_1h_tokens),
    plain: asNumber(expected.uncached_tokens),
    isReported: false,
  };
}

const REDUCTIONS = table<Round["reductions"][number]>({
  "conv.range.summary": "compacted",
  "react.pruned": "pruned",
  "react.hidden": "hidden",
});

function apply(state: RoundsState, seq: number, block: Block): void {
  const last = state.rounds.at(-1);
  const reduction = REDUCTIONS[block.type];
  if (reduction) state.reductions.push(reduction);
  if (block.type === "turn.header") state.turn = asNumber(meta(block, "n")) || state.turn + 1;
  else if (block.type === "react.model.call") addRound(state, seq, block);
  else if (block.type === "react.model.outcome") endRound(state, block);
  else if (last && block.type === "react.tool.call") change(state, { ...last, tools: [...last.tools, asString(objectOf(block.text)["tool_id"])] });
  else if (last && block.type === "react.tool.result" && isObject(meta(block, "error"))) change(state, { ...last, failed: last.failed + 1 });
}

/** Model calls for titles and summaries add to the cost, but are not rounds. */
function isDecision(block: Block): boolean {
  return (asString(meta(block, "purpose")) || "decision") === "decision";
}

function addRound(state: RoundsState, seq: number, block: Block): void {
  if (!isDecision(block)) return;
  const cache = meta(block, "cache");
  change(state, {
    at: state.rounds.length,
    seq,
    turnId: block.turn_id ?? "",
    turn: state.turn,
    round: asNumber(meta(block, "round")),
    attempt: asNumber(meta(block, "attempt")) || 1,
    model: asString(meta(block, "model")),
    startedTs: block.ts,
    endedTs: "",
    expected: isObject(cache) ? (cache as unknown as Expected) : null,
    used: { read: 0, written: 0, plain: 0, output: 0, cost: 0 },
    tools: [],
    failed: 0,
    reductions: state.reductions,
    spent: state.spent,
  });
  state.reductions = [];
}

function endRound(state: RoundsState, block: Block): void {
  const usage = meta(block, "usage");
  const reported = isObject(usage) ? usage : {};
  state.spent += asNumber(reported["cost_nano_usd"]);
  const last = state.rounds.at(-1);
  if (!last) return;
  if (!isDecision(block)) return change(state, { ...last, spent: state.spent });
  const used = {
    read: asNumber(reported["cache_read_tokens"]),
    written: asNumber(reported["cache_write_tokens"]),
    plain: asNumber(reported["input_tokens"]),
    output: asNumber(reported["output_tokens"]),
    cost: asNumber(reported["cost_nano_usd"]),
  };
  change(state, { ...last, endedTs: block.ts, used, spent: state.spent });
}

function change(state: RoundsState, round: Round): void {
  state.rounds[round.at] = round;
  state.isChanged = true;
}
