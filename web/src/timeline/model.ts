/** What the page shows of a timeline: turns and their items in chronological order. */
import type { Reaction } from "../api/client";
import type { Usage } from "./blocks";
import type { PartialReply } from "./partialReply";

export interface Message {
  kind: "message";
  seq: number;
  path: string;
  type: "prompt" | "followup" | "steer" | "event";
  label: string;
  /** The kind of an external event, such as `alert` or `form`; empty for messages. */
  event: string;
  /** The sender of an external event. */
  author: string;
  mime: string;
  text: string;
  ts: string;
  /** When the message was first part of a prompt; empty before that. */
  seenTs: string;
  attachments: Attachment[];
}

export interface Attachment {
  path: string;
  name: string;
  mime: string;
  bytes: number;
}

export interface Thinking {
  kind: "thinking";
  seq: number;
  text: string;
  /** How long the model thought; 0 if unknown. */
  ms: number;
}

/** A reply that a steer or a stop interrupted, with the text written until then. */
export interface InterruptedReply extends PartialReply {
  kind: "interrupted";
  seq: number;
  reason: "steered" | "stopped";
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
  /** What the running tool has printed so far. */
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
  comment: string;
}

export interface Result {
  seq: number;
  role: "status" | "digest" | "content";
  text: string;
  mime: string;
  path: string;
  /** The channel that the call chose for its file; `timeline_text` belongs into the chat. */
  channel: string;
}

export interface Notice {
  seq: number;
  code: string;
  text: string;
}

export interface Answer {
  kind: "answer";
  seq: number;
  path: string;
  text: string;
  n: number;
  sourcesUsed: number[];
  followups: string[];
  /** Whether the model wrote it as plain text, outside the expected format. */
  isUnformatted: boolean;
}

/** Text that the model wrote on a channel of the agent. */
export interface ChannelText {
  kind: "channel";
  seq: number;
  path: string;
  channel: string;
  mime: string;
  widget: string;
  text: string;
  cut: boolean;
}

/** A channel that a turn declares beside the built-in ones. */
export interface DeclaredChannel {
  name: string;
  mime: string;
  widget: string;
}

/** The answer of a person to a form. */
export interface FormAnswer {
  author: string;
  values: Record<string, unknown>;
}

/** A one-line note between the items, for example that older steps were compacted. */
export interface TimelineEvent {
  kind: "event";
  seq: number;
  type: "compaction" | "pruned" | "hidden" | "erased" | "notice" | "retry";
  text: string;
  detail: string;
  /** How many times in a row it happened. Only retries repeat. */
  times: number;
}

export interface PlanItem {
  kind: "plan";
  seq: number;
  id: string;
  steps: { text: string; status: string }[];
  change: string;
}

export type Item = Message | Thinking | InterruptedReply | Notes | Call | Answer | ChannelText | TimelineEvent | PlanItem;

export interface Turn {
  id: string;
  n: number;
  startSeq: number;
  startedTs: string;
  endedTs: string;
  endSeq: number;
  reason: string;
  /** The error of the last model call; empty if it succeeded. */
  failure: string;
  endText: string;
  items: Item[];
  channels: DeclaredChannel[];
  usage: Required<Usage>;
  rounds: number;
  model: string;
  reaction: Reaction | "";
  reactionText: string;
}

export interface Artifact {
  path: string;
  name: string;
  mime: string;
  kind: string;
  versions: Version[];
  /** False if the newest version is internal to the agent. */
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

/** A file that the agent is writing. */
export interface LiveFile {
  index: number;
  channel: string;
  /** Empty if the model did not name the file before its text. */
  path: string;
  mime: string;
  text: string;
}

/** Text that the model is writing on a channel of the agent. */
export interface LiveText {
  channel: string;
  index: number;
  text: string;
}

export interface Live {
  /** Unfinished text by channel, without that of files. */
  channels: Record<string, string>;
  /** Unfinished files, the newest last. */
  files: LiveFile[];
  /** Unfinished texts on channels of the agent. */
  texts: LiveText[];
  /** When each channel started, for the timer; 0 if it started before this page connected. */
  since: Record<string, number>;
  /** True after a reconnect: the server resends the text, so the next delta replaces it. */
  stale: boolean;
  /** How many of the statuses that a new stream starts with are still to come. Each is followed by resent text. */
  expectedStatuses: number;
  /** When the last of these statuses arrived. */
  lastStatusAt: number;
}
