/** What is shown of a timeline: turns with their items, in the order in which they happened. */
import type { Usage } from "./blocks";
import type { Written } from "./written";

export interface Message {
  kind: "message";
  seq: number;
  how: "prompt" | "followup" | "steer" | "event";
  label: string;
  text: string;
  ts: string;
  /** When the model was asked with it; empty as long as it was not. */
  seenTs: string;
  attachments: Attached[];
}

export interface Attached {
  path: string;
  name: string;
  mime: string;
  bytes: number;
}

export interface Thinking {
  kind: "thinking";
  seq: number;
  text: string;
  /** How long it took; 0 where nobody knows. */
  ms: number;
}

/** A reply that was broken off: what was written until then. */
export interface Cut extends Written {
  kind: "cut";
  seq: number;
  how: "steered" | "stopped";
}

export interface Notes {
  kind: "notes";
  seq: number;
  text: string;
}

export interface Call {
  kind: "call";
  seq: number;
  id: string;
  toolId: string;
  params: string;
  code: string;
  startedTs: string;
  endedTs: string;
  results: Result[];
  notices: Notice[];
  error: string;
  /** Live output of what runs, by channel. */
  output: string;
  approval: Approval | null;
  gate: string;
}

export interface Approval {
  text: string;
  policy: string;
  askedTs: string;
  decided: "" | "allowed" | "refused";
  decidedTs: string;
  by: string;
  words: string;
}

export interface Result {
  seq: number;
  role: "status" | "digest" | "content";
  text: string;
  mime: string;
  path: string;
}

export interface Notice {
  seq: number;
  code: string;
  text: string;
}

export interface Answer {
  kind: "answer";
  seq: number;
  text: string;
  n: number;
  sourcesUsed: number[];
  followups: string[];
}

export interface Mark {
  kind: "mark";
  seq: number;
  how: "compaction" | "pruned" | "hidden" | "erased" | "notice" | "retry";
  text: string;
  detail: string;
  /** How often in a row, where it may happen again. */
  times: number;
}

export interface PlanItem {
  kind: "plan";
  seq: number;
  id: string;
  steps: { text: string; status: string }[];
  change: string;
}

export type Item = Message | Thinking | Cut | Notes | Call | Answer | Mark | PlanItem;

export interface Turn {
  id: string;
  n: number;
  startSeq: number;
  startedTs: string;
  endedTs: string;
  endSeq: number;
  reason: string;
  /** Why the model did not answer when it was asked last; empty where it did. */
  failure: string;
  endText: string;
  items: Item[];
  usage: Required<Usage>;
  rounds: number;
  model: string;
  reaction: string;
  reactionText: string;
}

export interface Artifact {
  path: string;
  name: string;
  mime: string;
  kind: string;
  versions: Version[];
  /** False where the newest version is not for others. */
  external: boolean;
}

export interface Version {
  seq: number;
  ts: string;
  turnId: string;
  text: string | null;
  bytes: number;
}

export interface Source {
  sid: number;
  source_type: string;
  title: string;
  url: string;
  text: string;
  domain: string;
  date: string;
  mime: string;
  path: string;
}

export interface Live {
  /** Text on its way, by channel. */
  channels: Record<string, string>;
  /** When each channel began, for the clock beside it; 0 where it had begun before anybody listened. */
  since: Record<string, number>;
  /** Whether a stream has begun since, which tells all of it again: the first text that comes takes its place. */
  stale: boolean;
  /** How many more times a stream that began says how it stands, and when it last did: what was written before is told again right after. */
  joining: number;
  joinedAt: number;
}
