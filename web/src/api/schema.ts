// Written by `make clients` from the OpenAPI document.

/** Heading above the agent's work in a turn in older logs; timeloom does not write it. */
export interface AgentLogStartedBlock {
  type: "agent.log.header";
  ts: string;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
  meta?: AgentLogStartedMeta;
}

/** The `meta` of `agent.log.header`. */
export interface AgentLogStartedMeta {
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
}

/** A person's decision to allow or refuse a call. */
export interface ApprovalDecidedBlock {
  type: "react.approval.decision";
  ts: string;
  meta: ApprovalDecidedMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
}

/** The `meta` of `react.approval.decision`. */
export interface ApprovalDecidedMeta {
  tool_call_id: string;
  approved: boolean;
  by: string;
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
}

/** Requests a person's approval of a call; the turn waits for the decision. */
export interface ApprovalRequestedBlock {
  type: "react.approval.request";
  ts: string;
  meta: ApprovalRequestedMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
}

/** The `meta` of `react.approval.request`. */
export interface ApprovalRequestedMeta {
  tool_call_id: string;
  tool_id: string;
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  policy?: string;
  blobs?: Record<string, BlobRef>;
}

/** Waiting calls, in the order of their conversations. `cursor` requests the next page; it is empty on the last. */
export interface ApprovalsPage {
  approvals: WaitingApproval[];
  cursor: string;
}

/** Content of an attachment. */
export interface AttachmentBlock {
  type: "user.attachment";
  ts: string;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
  base64?: string;
  meta?: AttachmentMeta;
}

/** The `meta` of `user.attachment`. */
export interface AttachmentMeta {
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  digest?: Digest;
  shown?: Shown;
  hosted_uri?: string;
  rn?: string;
  key?: string;
  physical_path?: string;
  blobs?: Record<string, BlobRef>;
}

/** Metadata of an attachment: its digest and the summary line for the prompt. */
export interface AttachmentMetaBlock {
  type: "user.attachment.meta";
  ts: string;
  text: string;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  meta?: AttachmentMetaMeta;
}

/** The `meta` of `user.attachment.meta`. */
export interface AttachmentMetaMeta {
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  summary?: string;
}

/** A request; a second entry with the same id carries the `status` of the response. */
export interface AuditEntry {
  id: string;
  ts: string;
  tenant: string;
  project: string;
  user: string;
  role: string;
  operation: string;
  conversation_id?: string;
  /** The owner of the conversation if it is another user. */
  owner?: string;
  call_id?: string;
  status?: number;
}

/** Entries, oldest first. `cursor` requests the next page and also works for entries that are added later. */
export interface AuditPage {
  entries: AuditEntry[];
  cursor: string;
}

/** Rows in the order of their columns. `total` covers all pages; `cursor` requests the next page. */
export interface Bill {
  tenant: string;
  project: string;
  total: SpendSums;
  rows: SpendRow[];
  cursor: string;
}

/** Reference to a stored payload by the SHA-256 of its bytes. */
export interface BlobRef {
  sha256: string;
  size_bytes: number;
}

/** A block of the timeline. Clients keep blocks that they do not know. */
export type Block = KnownBlock | OtherBlock;

/** A bundle and the place of its fault; the reason is in `GET /bundles`, which needs a token. */
export interface BundleHealth {
  name: string;
  state: "disabled" | "ready";
  code: string;
  place: string;
}

/** A bundle; `fault` says why it takes no messages. */
export interface BundleInfo {
  name: string;
  title: string;
  description: string;
  state: "disabled" | "ready";
  fault: string;
}

/** All bundles; new conversations that name none belong to `default`. */
export interface BundleList {
  bundles: BundleInfo[];
  default: string;
}

/** Cache points of a request and the usage its provider is expected to report, in the model's tokens. The points and lifetimes are a function of the log and of `at`, `last`, `settings` and `rates`. */
export interface CacheForecast {
  /** Time for which the forecast was made. */
  at: string;
  /** Hash of the system text. */
  system: string;
  points?: CachePoint[];
  /** Longest prefix that the provider should still have cached; None if it should have none. */
  hit?: CachePoint;
  read_tokens?: number;
  written_5m_tokens?: number;
  written_1h_tokens?: number;
  uncached_tokens?: number;
  /** Whether this call was certain to be the last of its turn. */
  last?: boolean;
  settings?: CacheSettings;
  rates?: CacheRates;
  /** Version of the arithmetic; another version may choose other points. */
  version?: number;
}

/** A cache point of a request: the last entry before it, and the prefix that ends there. `blocks` counts the content blocks of the prefix after the system text; the point on the system text has 0 blocks and seq 0. `tokens` is our count including the system text. `prefix` is a hash of the prefix without the system text. */
export interface CachePoint {
  seq: number;
  blocks: number;
  tokens: number;
  prefix?: string;
  lifetime?: "1h" | "5m";
  /** Whether the prefix has fewer tokens than the provider's minimum for caching. */
  small?: boolean;
}

/** Prices of cached tokens as multiples of the price of an uncached token. */
export interface CacheRates {
  read?: number;
  write_5m?: number;
  write_1h?: number;
}

/** The cache forecast of a call, and why the reported use differs or less was read than possible. */
export interface CacheRow {
  expected: CacheForecast;
  /** Whether the call recorded the forecast; for an older call it is computed by the current rules. */
  recorded: boolean;
  reported: boolean;
  /** The first block that differs from the previous prompt, and the reason; None if the cache was used as expected. */
  change: PromptChange | null;
  /** Whether recomputing the forecast from the log gives the same points, lifetimes and numbers. */
  reproduced: boolean;
}

/** Settings of the pre-tail cache point: first round that sets it, rounds after it, and editable tokens. A larger `offset_rounds` lets the agent hide more blocks, but a hide then resends more tokens. */
export interface CacheSettings {
  min_rounds?: number;
  offset_rounds?: number;
  editable_tail_tokens?: number;
  lifetime?: "1h" | "5m" | "auto";
}

/** The text of a call: the tool, the time, and the parameters, unless they are in the blob store. */
export interface CallText {
  tool_id: string;
  tool_call_id: string;
  ts: string;
  params?: Record<string, unknown>;
}

/** A tool call that the model requested; `params` is JSON with sorted keys. */
export interface CallTrace {
  tool_call_id: string;
  tool_id: string;
  params: string;
  code?: string;
  failed?: boolean;
  result?: "" | "live" | "not_recorded" | "recorded" | "run";
}

/** Text that the model wrote on a declared channel. `n` numbers the texts of one channel in a turn. */
export interface ChannelTextBlock {
  type: "react.channel";
  ts: string;
  meta: ChannelTextMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
}

/** The `meta` of `react.channel`. */
export interface ChannelTextMeta {
  channel: string;
  round: number;
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  n?: number;
  /** The name of the widget that shows it; empty shows the text. */
  widget?: string;
  /** Whether a part of the text is missing: the reply ended within it, or it was too long. */
  cut?: boolean;
  blobs?: Record<string, BlobRef>;
}

/** A person has to decide before the turn can continue. */
export interface ChatApproval {
  turn_id: string;
  seq: number;
  tool_call_id: string;
  tool_id: string;
  text: string;
  policy: string;
}

/** A stored block. */
export interface ChatBlock {
  seq: number;
  block: Block;
}

/** A compaction of older parts of the conversation started or finished. */
export interface ChatCompaction {
  status: "completed" | "skipped" | "started";
  before_tokens: number;
  after_tokens: number;
}

/** A turn ended. */
export interface ChatComplete {
  turn_id: string;
  seq: number;
  reason: "budget_exhausted" | "cancelled" | "completed" | "exited" | "max_iterations" | "no_progress" | "protocol_failure" | "provider_error" | "refused" | "runtime_error" | "stopped";
}

/** A piece of streamed text. It is provisional: the stored block contains the whole text. Each reader receives the text from its beginning. */
export interface ChatDelta {
  turn_id: string;
  channel: string;
  index: number;
  text: string;
  /** Whether the beginning of the text is missing, because the reader joined late. */
  cut?: boolean;
  /** The file whose text this is, if the model wrote its path before the text. */
  path?: string;
  /** The type of that file. */
  mime?: string;
}

/** The turn or this stream stopped; the code is one of `core/codes.py`. */
export interface ChatError {
  code: string;
  message: string;
}

/** A turn began. */
export interface ChatStart {
  turn_id: string;
  seq: number;
  n: number;
}

/** A step of the turn began, or a tool call finished. */
export interface ChatStep {
  step: "model" | "result" | "round" | "tool";
  turn_id: string;
  seq: number;
  round?: number;
  /** For `model`: all entries up to this seq are in the prompt, so a sender knows that its message was seen. */
  seen?: number;
  tool_id?: string;
  tool_call_id?: string;
}

/** The outcome of the request `message_id`: the summarized turns and tokens, or the reason why nothing was done. */
export interface CompactionEndedBlock {
  type: "react.compact.end";
  ts: string;
  meta: CompactionEndedMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
}

/** The `meta` of `react.compact.end`. */
export interface CompactionEndedMeta {
  message_id: string;
  outcome: "completed" | "skipped";
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  /** The turns that the summary covers at least in part. */
  turns?: number;
  /** Estimated tokens that the summary replaced. */
  covered_tokens?: number;
  /** Estimated tokens of the summary. */
  summary_tokens?: number;
}

/** Requests a summary of the conversation before its newest `keep` rounds; `text` says what it should keep. */
export interface CompactionRequestedBlock {
  type: "react.compact.request";
  ts: string;
  meta: CompactionRequestedMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
}

/** The `meta` of `react.compact.request`. */
export interface CompactionRequestedMeta {
  /** The id of the request; a request that is sent again has the same. */
  message_id: string;
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  /** The number of rounds that stay; 0 means the default. */
  keep?: number;
}

/** The trajectories of a conversation (`recorded`) and its fork (`rerun`) after the fork point. Sums, models and `is_same` cover only `turns`, which may be one page of more turns. */
export interface Comparison {
  forked_from: ForkPoint;
  recorded_models: string[];
  rerun_models: string[];
  is_same: boolean;
  recorded: Effort;
  rerun: Effort;
  turns: TurnPair[];
}

/** An answer shown to the user. `n` numbers the answers of a turn; the path without a number means the newest. */
export interface CompletionBlock {
  type: "assistant.completion";
  ts: string;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
  meta?: CompletionMeta;
}

/** The `meta` of `assistant.completion`. */
export interface CompletionMeta {
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  n?: number;
  sources_used?: number[];
  suggested_followups?: string[];
  /** Whether it is plain text of a reply that had no decision. */
  unformatted?: boolean;
  blobs?: Record<string, BlobRef>;
}

/** The current state of the conversation. */
export interface ConvStatus {
  conversation_id: string;
  state: "idle" | "interrupted" | "running" | "waiting";
  /** The last stored entry. A client that compares two statuses takes the one with the higher tail. */
  tail: number;
  turn_id: string;
  round: number;
  /** The seqs of messages to the turn that are not in any prompt yet. */
  unseen: number[];
  /** The calls that wait for a person's decision. */
  approvals: PendingApproval[];
}

/** A conversation, its state, and the caller's permissions. */
export interface ConversationDetails {
  id: string;
  tenant: string;
  project: string;
  user: string;
  started_ts: string;
  last_ts: string;
  tail: number;
  state: "idle" | "interrupted" | "running" | "waiting";
  /** Whether the caller may send messages; without it, the caller may only read and perhaps decide on calls. */
  may_write: boolean;
  /** Whether the caller may decide on calls that wait for approval. */
  may_decide: boolean;
  bundle?: string;
  title?: string;
  parent?: string;
}

/** A conversation as lists show it. */
export interface ConversationInfo {
  id: string;
  tenant: string;
  project: string;
  user: string;
  started_ts: string;
  last_ts: string;
  tail: number;
  bundle?: string;
  title?: string;
  parent?: string;
}

/** Conversations, newest first; `cursor` requests the next page and is empty at the end. */
export interface ConversationList {
  conversations: ListedConversation[];
  cursor: string;
}

/** A conversation that contains all of the words, and its newest messages with any of them. */
export interface ConversationMatch {
  conversation: ConversationInfo;
  hits: MessageHit[];
}

/** First entry of every conversation: its owner and its origin. */
export interface ConversationStartedBlock {
  type: "conv.header";
  ts: string;
  text: string;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
}

/** The text of `conv.header`. */
export interface ConversationStartedText {
  tenant: string;
  project: string;
  user: string;
  erased?: boolean;
  bundle?: string;
  parent?: string;
  forked_from?: ForkPoint;
}

/** The new title, and the seq of its entry on the timeline. */
export interface ConversationTitle {
  conversation_id: string;
  title: string;
  seq: number;
}

/** Conversations, newest feedback first. `total` covers all pages; `cursor` requests the next page. */
export interface ConversationsInPeriod {
  tenant: string;
  project: string;
  start: string;
  end: string;
  total: Satisfaction;
  conversations: PeriodConversation[];
  cursor: string;
}

/** Shows entries `first_seq` to `last_seq` as `text`, or not at all if `text` is empty. */
export interface Cut {
  first_seq: number;
  last_seq: number;
  text: string;
}

/** A person's decision on a call, with an optional reason in `text`. */
export interface DecisionBody {
  approved: boolean;
  text?: string;
}

/** A channel that an agent declares: its name, the type of its content, its purpose and its widget. `purpose` says when and what the model writes on it. `widget` names the widget that shows it; empty shows the text. */
export interface DeclaredChannel {
  name: string;
  mime: string;
  purpose?: string;
  widget?: string;
}

/** An artifact's logical and physical path, kind, size and origin, without its hosting location. `tool_call_id` is set only if it differs from that of the surrounding block. */
export interface Digest {
  artifact_path: string;
  physical_path?: string;
  mime?: string;
  kind?: "display" | "file";
  visibility?: "external" | "internal";
  channel?: string;
  tool_call_id?: string;
  sources_used?: number[];
  tokens?: number;
  size_bytes?: number;
  edited?: boolean;
  write_warning?: string;
  error?: ToolError;
}

/** The effort of some rounds: requests, calls, token usage and model time. */
export interface Effort {
  requests: number;
  calls: number;
  usage: Usage;
  model_ms: number;
}

/** Selects the content to erase: these paths, or `all`. With `quotes`, also blocks with the same text. */
export interface EraseBody {
  paths?: string[];
  all?: boolean;
  quotes?: boolean;
}

/** Records that the conversation's content was erased, where, and on whose request. */
export interface ErasedBlock {
  type: "conv.erased";
  ts: string;
  meta: ErasedMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
}

/** An entry in an erasure report: its position and the reason, never its content. */
export interface ErasedEntry {
  seq: number;
  type: string;
  path: string;
  why: "call it came from" | "named" | "quotes it" | "reply it came from" | "request that showed it" | "result it came with" | "shows it again" | "stands in its place" | "sums it up" | "title made from it";
}

/** An erased entry, and the salted hash of the form that replaced it. */
export interface ErasedForm {
  seq: number;
  hash: string;
}

/** The `meta` of `conv.erased`. */
export interface ErasedMeta {
  by: string;
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  forms?: ErasedForm[];
}

/** The entries and files that an erasure removes or has removed. */
export interface ErasureReport {
  conversation: string;
  entries: ErasedEntry[];
  /** The number of named entries that had been erased before. */
  before: number;
  /** Blocks that contain the same text independently; they stay unless they are named. */
  quotes: ErasedEntry[];
  /** Files of the workspace. */
  files: string[];
  /** Conversations that have a copy because of a fork in either direction; they stay. */
  copies: string[];
}

/** An event: `followup`, `steer`, `cancel`, `compact`, or any other kind, which is shown to the model. */
export interface EventBody {
  kind: string;
  text?: string;
  mime?: string;
  /** When the event began, as RFC 3339 in UTC; empty means now. */
  started_ts?: string;
  /** For `form`: the id of the call that asked; `text` is then a JSON object with the values of its fields. */
  form?: string;
  /** For `compact`: the number of newest rounds that stay; 0 means two. */
  keep?: number;
  /** For `compact`: an id of your choice, so that a request that is sent twice is carried out once. */
  request_id?: string;
}

/** The links of all entries, and the hash of the last entry. */
export interface ExportedChain {
  head: string;
  links: ExportedLink[];
}

/** The link of one entry, in hex. At most one of `block` and `record` is set. */
export interface ExportedLink {
  seq: number;
  salt?: string;
  before?: string;
  content?: string;
  /** The block as it was stored, if the export shows it in another state, for example hidden. */
  block?: Block;
  /** The record, if it cannot be made from the block again. */
  record?: string;
}

/** Any other external event, such as a form, a wizard step or an alert; `started_ts` is the event's time. */
export interface ExternalEventBlock {
  type: "external.event";
  ts: string;
  meta: ExternalEventMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
}

/** The `meta` of `external.event`. */
export interface ExternalEventMeta {
  kind: string;
  message_id: string;
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  started_ts?: string;
  blobs?: Record<string, BlobRef>;
}

/** Feedback on the turn by a person or a machine. A person's newest reaction counts; null clears it. */
export interface FeedbackBlock {
  type: "turn.feedback";
  ts: string;
  meta: FeedbackMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
}

/** Feedback on a turn; a reaction of null withdraws the previous feedback of a person. */
export interface FeedbackBody {
  reaction: "neutral" | "not_ok" | "ok" | null;
  text?: string;
  /** When the feedback was given, as RFC 3339 in UTC; empty means now. */
  ts?: string;
  /** Feedback of a machine is added to that of people; only admins may submit it. */
  origin?: "machine" | "user";
  /** The confidence of the machine, from 0 to 1. */
  confidence?: number | null;
}

/** The `meta` of `turn.feedback`. */
export interface FeedbackMeta {
  origin: "machine" | "user";
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  reaction?: "neutral" | "not_ok" | "ok";
  confidence?: number;
  /** Time of the feedback as reported by its sender; empty if it is the entry's time. */
  given_ts?: string;
}

/** The recorded feedback, and the seq of its entry on the timeline. */
export interface FeedbackReceipt {
  conversation_id: string;
  turn_id: string;
  seq: number;
  reaction: "neutral" | "not_ok" | "ok" | null;
}

/** Selects a conversation and its turns by id or number; without `turn_ids`, all turns. */
export interface FetchBody {
  conversation_id: string;
  turn_ids?: string[] | null;
  cursor?: string;
  limit?: number;
}

/** A downloadable file: its path on the timeline, resource name, URL, type and size. */
export interface FileInfo {
  path: string;
  rn: string;
  url: string;
  name: string;
  mime: string;
  size_bytes: number;
}

/** Files in the order of creation. `cursor` requests the next page and is empty on the last one. */
export interface FilesPage {
  files: FileInfo[];
  cursor: string;
}

/** A user message sent during the turn; `started_ts` is the time of sending if it is earlier than the entry's. */
export interface FollowupBlock {
  type: "user.followup";
  ts: string;
  meta: FollowupMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
}

/** The `meta` of `user.followup`. */
export interface FollowupMeta {
  message_id: string;
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  started_ts?: string;
  /** As in `UserPrompt`. */
  quoted_roles?: string[];
  blobs?: Record<string, BlobRef>;
}

/** The point to fork at: the end of a turn, by its id or number, or an entry. Default: the whole conversation. */
export interface ForkBody {
  turn?: string | null;
  seq?: number | null;
}

/** The fork's status and both trajectories so far; `cursor` requests the next turns. */
export interface ForkComparison {
  conversation_id: string;
  status: ConvStatus;
  comparison: Comparison;
  cursor: string;
}

/** The entry of another conversation at which this one was forked. */
export interface ForkPoint {
  conversation_id: string;
  seq: number;
}

/** The new conversation, its fork point and its number of turns; `cut` says whether a turn was cut in two. */
export interface ForkResult {
  conversation: string;
  forked_from: ForkPoint;
  turns: number;
  cut: boolean;
}

/** A policy's verdict on a proposed step. */
export interface GateBlock {
  type: "react.gate";
  ts: string;
  meta: GateMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
}

/** The `meta` of `react.gate`. */
export interface GateMeta {
  policy: string;
  verdict: "allow" | "ask" | "refuse";
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  tool_call_id?: string;
}

/** The server is up, with the state of its bundles. */
export interface Health {
  status: "ok";
  version: string;
  bundles: BundleHealth[];
}

/** Shows the blocks at `target` as `replacement` in all later prompts. */
export interface HiddenBlock {
  type: "react.hidden";
  ts: string;
  meta: HiddenMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
}

/** The `meta` of `react.hidden`. */
export interface HiddenMeta {
  target: string;
  replacement: string;
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
}

/** A block of a type that timeloom writes. */
export type KnownBlock = ConversationStartedBlock | TitledBlock | SourcesAddedBlock | WorkingSummaryBlock | RangeSummaryBlock | ErasedBlock | TurnStartedBlock | AgentLogStartedBlock | TurnEndedBlock | UserPromptBlock | AttachmentMetaBlock | AttachmentBlock | FollowupBlock | SteerBlock | ExternalEventBlock | FeedbackBlock | CompletionBlock | ReactCompletionBlock | RoundStartedBlock | ModelCalledBlock | ModelAnsweredBlock | ThinkingBlock | NotesBlock | NoteBlock | ChannelTextBlock | ToolCodeBlock | ToolCallBlock | NoticeBlock | ToolResultBlock | GateBlock | ApprovalRequestedBlock | ApprovalDecidedBlock | PlanRecordedBlock | PlanAcknowledgedBlock | PlansCompactedBlock | HiddenBlock | PrunedBlock | CompactionRequestedBlock | CompactionEndedBlock | PinnedBlock | StageGateBlock | StageCoordinatorBlock | StageFeedbackBlock | StageClarificationBlock | StageClarificationResolvedBlock;

/** A conversation and its state. */
export interface ListedConversation {
  id: string;
  tenant: string;
  project: string;
  user: string;
  started_ts: string;
  last_ts: string;
  tail: number;
  state: "idle" | "interrupted" | "running" | "waiting";
  bundle?: string;
  title?: string;
  parent?: string;
}

/** The current user, their project and the limits of the page. */
export interface Me {
  tenant: string;
  project: string;
  user: string;
  role: "admin" | "approver" | "user";
  /** The server's model. */
  model: string;
  /** Whether this model only demonstrates timeloom. */
  demo: boolean;
  /** Messages that this model handles well. */
  examples: string[];
  /** Models for re-runs; the server's default model comes first. */
  models: string[];
  /** Maximum number of files per message. */
  max_uploads: number;
  /** For all files of a message together. */
  max_upload_bytes: number;
  /** Suffixes of file names whose types cannot be attached. */
  refused_suffixes: string[];
  /** Whether this server signs people in and out; otherwise the application around it does. */
  signs_in: boolean;
  /** The widgets that show channels. */
  widgets: WidgetInfo[];
}

/** A message; without `conversation_id` it starts a new conversation. */
export interface MessageBody {
  message: string;
  conversation_id?: string | null;
  /** The bundle of a new conversation; empty means the server's default. */
  bundle?: string;
}

/** A message that contains at least one of the words. */
export interface MessageHit {
  seq: number;
  turn_id: string;
  type: string;
  path: string;
  ts: string;
  snippet: string;
}

/** How a request ended: usage and stop reason, and the partial text if it was cut or failed. */
export interface ModelAnsweredBlock {
  type: "react.model.outcome";
  ts: string;
  meta: ModelAnsweredMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
}

/** The `meta` of `react.model.outcome`. */
export interface ModelAnsweredMeta {
  round: number;
  model: string;
  stop_reason: string;
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  purpose?: "compaction" | "decision" | "title";
  attempt?: number;
  usage?: Usage;
  /** Whether the provider reported usage; if not, `usage` is empty and the cost unknown. */
  usage_reported?: boolean;
  /** Whether the model's price is known; if not, the cost is 0. */
  priced?: boolean;
  interrupted?: boolean;
  error?: string;
  /** Details of the error, from the provider or from timeloom. */
  detail?: string;
  /** Names of the repairs that made the reply readable; empty if it was read as it stands. */
  repairs?: string[];
  /** The repaired reply, which is executed in place of `text`. */
  repaired?: string;
  /** How the reply states the decision. */
  protocol?: "channels" | "native";
  /** The native tool calls of the reply, as JSON; empty if there are none. */
  tool_calls?: string;
  blobs?: Record<string, BlobRef>;
}

/** A request about to be sent: its hash, and the parts that cannot be rendered again from the log. */
export interface ModelCalledBlock {
  type: "react.model.call";
  ts: string;
  meta: ModelCalledMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
}

/** The `meta` of `react.model.call`. */
export interface ModelCalledMeta {
  round: number;
  model: string;
  request_sha256: string;
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  purpose?: "compaction" | "decision" | "title";
  attempt?: number;
  system?: string;
  tail?: string;
  /** Our estimate for the whole request; 0 if it was not estimated. */
  estimated_tokens?: number;
  /** Version of the rendering code; another version may produce different bytes. */
  rendering?: number;
  /** The last entry that the request contains; 0 if it was not recorded, or for a side call. */
  seen?: number;
  /** Cache points and the expected cache use; None if caching was not planned. */
  cache?: CacheForecast;
  /** The sections of the system text with their versions, such as `agent.1 reply.1`; none for edition 1. The assistant's own instructions follow by their digest: `own.9f86d081884c7d65`. */
  sections?: string;
  /** How the model was asked to state its decision. */
  protocol?: "channels" | "native";
  /** The functions of native tool calling, as JSON; empty with channels. */
  tools?: string;
  blobs?: Record<string, BlobRef>;
}

/** A short internal note that agents see and users do not. */
export interface NoteBlock {
  type: "react.note";
  ts: string;
  meta: NoteMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
}

/** The `meta` of `react.note`. */
export interface NoteMeta {
  tool_call_id: string;
  channel: "internal" | "timeline_text";
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  blobs?: Record<string, BlobRef>;
}

/** The agent's message to the user before a call. */
export interface NotesBlock {
  type: "react.notes";
  ts: string;
  meta: NotesMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
}

/** The `meta` of `react.notes`. */
export interface NotesMeta {
  tool_call_id: string;
  channel: "internal" | "timeline_text";
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  blobs?: Record<string, BlobRef>;
}

/** Information for the model about its call or its reply: a code of the registry and a sentence. */
export interface NoticeBlock {
  type: "react.notice";
  ts: string;
  text: string;
  meta: NoticeMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
}

/** The `meta` of `react.notice`. */
export interface NoticeMeta {
  code: string;
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  tool_call_id?: string;
  /** Whether the result of the call states the same error, so that a prompt need not show it twice. */
  in_result?: boolean;
}

/** A block of an unknown type, or one that another program wrote in another form. Most have the fields `type`, `author`, `turn_id`, `ts`, `mime`, `path`, `text`, `base64` and `meta`, but any JSON object is possible. */
export type OtherBlock = Record<string, unknown>;

/** A call that waits for a person's decision, and the question. */
export interface PendingApproval {
  tool_call_id: string;
  tool_id: string;
  text: string;
}

/** A period from `start`, inclusive, to `end`, exclusive. Admins may select another `user`, or all with `*`. */
export interface PeriodBody {
  start: string;
  end: string;
  user?: string;
  cursor?: string;
  limit?: number;
}

/** A conversation with the current feedback that it received in the period. */
export interface PeriodConversation {
  conversation: ConversationInfo;
  last_feedback_ts: string;
  counts: Satisfaction;
}

/** The path of the blocks to pin; with `pinned: false`, their pin ends. */
export interface PinBody {
  path: string;
  pinned?: boolean;
}

/** The pins of a conversation, oldest first, and their tokens together. */
export interface PinList {
  conversation_id: string;
  pins: PinnedPath[];
  tokens: number;
}

/** The recorded pin, or its end: the path of the blocks, their tokens, and the seq of its entry. */
export interface PinReceipt {
  conversation_id: string;
  path: string;
  pinned: boolean;
  seq: number;
  tokens: number;
}

/** Keeps the blocks at `target` in prompts that are pruned or summarized later, or ends that if not `pinned`. */
export interface PinnedBlock {
  type: "react.pinned";
  ts: string;
  meta: PinnedMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
}

/** The `meta` of `react.pinned`. */
export interface PinnedMeta {
  target: string;
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  pinned?: boolean;
  /** Estimated tokens of the blocks when they were pinned. */
  tokens?: number;
}

/** A pin: its path, the pinned entries, their estimated tokens, and the seq of the entry that pinned them. */
export interface PinnedPath {
  path: string;
  seqs: number[];
  tokens: number;
  seq: number;
}

/** The step marks in a round's notes, as the model wrote them. */
export interface PlanAcknowledgedBlock {
  type: "react.plan.ack";
  ts: string;
  text: string;
  meta: PlanAcknowledgedMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
}

/** The `meta` of `react.plan.ack`. */
export interface PlanAcknowledgedMeta {
  round: number;
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  plan_id?: string;
}

/** A plan's state after a change; `new`, `replace` and `activate` make an open plan the current one. */
export interface PlanRecordedBlock {
  type: "react.plan";
  ts: string;
  text: string;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  meta?: PlanRecordedMeta;
}

/** The `meta` of `react.plan`. */
export interface PlanRecordedMeta {
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  change?: "activate" | "close" | "new" | "progress" | "replace";
}

/** A plan in its JSON form: statuses by step number. */
export interface PlanText {
  plan_id: string;
  steps: string[];
  status?: Record<string, "done" | "failed" | "in_progress" | "pending">;
  created_ts?: string;
  last_ts?: string;
  origin_turn_id?: string;
  last_turn_id?: string;
  closed_ts?: string;
  superseded_ts?: string;
  verbatim?: boolean;
  snapshot_ref?: string;
}

/** The plans of a compacted range: their steps, statuses and paths. */
export interface PlansCompactedBlock {
  type: "react.plan.history";
  ts: string;
  text: string;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  meta?: PlansCompactedMeta;
}

/** The `meta` of `react.plan.history`. */
export interface PlansCompactedMeta {
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
}

/** The plans of a compacted range. */
export interface PlansText {
  plans: PlanText[];
}

/** An error as in RFC 9457; `detail` explains it and `code` identifies its kind. */
export interface ProblemDetails {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: string;
  instance: string;
}

/** The reason why a prompt differs from the previous one, and the first entry that is rendered differently. */
export interface PromptChange {
  reason: "catalogue" | "compaction" | "edit" | "estimate" | "evicted" | "expired" | "hide" | "look_back" | "model" | "more_kept" | "no_outcome" | "not_reported" | "prune" | "rendering" | "system" | "too_small";
  seq: number;
  path: string;
}

/** A model request rebuilt from the log; `call` reports whether it equals the original byte for byte. */
export interface PromptDetails {
  call: ReplayedCall;
  system: string;
  segments: PromptSegment[];
  tail: string;
}

/** A segment of the prompt: its text, or the type and size of an image or a PDF. */
export interface PromptSegment {
  text: string;
  mime: string;
  size_bytes: number;
  cache_point: boolean;
}

/** Shows each cut's entries as its text in all later prompts; `reason` records the arithmetic of the decision. */
export interface PrunedBlock {
  type: "react.pruned";
  ts: string;
  meta: PrunedMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
}

/** The `meta` of `react.pruned`. */
export interface PrunedMeta {
  cuts: Cut[];
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  reason?: string;
  /** All turns up to this seq are shown as cards from now on; 0 if the cuts have another purpose. */
  through_seq?: number;
  /** Estimated tokens of the rounds that rows replace. */
  round_tokens?: number;
  /** Estimated tokens of these rows; the next prune expects the same share. */
  row_tokens?: number;
}

/** Replaces entries `first_seq` to `last_seq` in prompts, or the covered turns if both are 0. */
export interface RangeSummaryBlock {
  type: "conv.range.summary";
  ts: string;
  meta: RangeSummaryMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
}

/** The `meta` of `conv.range.summary`. */
export interface RangeSummaryMeta {
  covered_turn_ids: string[];
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  first_seq?: number;
  last_seq?: number;
  n?: number;
  blobs?: Record<string, BlobRef>;
}

/** The agent's closing text in older logs; timeloom does not write it. */
export interface ReactCompletionBlock {
  type: "react.completion";
  ts: string;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
  meta?: ReactCompletionMeta;
}

/** The `meta` of `react.completion`. */
export interface ReactCompletionMeta {
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  blobs?: Record<string, BlobRef>;
}

/** A model call of the log, its end, and whether its request can be rebuilt byte for byte. */
export interface ReplayedCall {
  kind: "call";
  conversation: string;
  seq: number;
  path: string;
  turn_id: string;
  round: number;
  attempt: number;
  purpose: "compaction" | "decision" | "title";
  model: string;
  stored_sha256: string;
  rebuilt_sha256: string;
  verdict: "differs" | "same" | "unchecked";
  /** The error, or else the stop reason; empty if the log does not contain the outcome. */
  ended: string;
  usage: Usage;
  /** Whether something in the request was erased; then it is unchecked, which is correct. */
  erased: boolean;
  /** The expected use of the provider's cache; None if there is no cacheable part or it is incomplete. */
  cache: CacheRow | null;
}

/** The entry after which to run again, and the model; default: the server's model. */
export interface RerunBody {
  seq: number;
  model?: string;
  /** Maximum number of turns; default: all. */
  turns?: number | null;
}

/** A running re-run: its fork and its model. */
export interface RerunJob {
  conversation_id: string;
  model: string;
}

/** The resource name of a file. */
export interface ResourceBody {
  rn: string;
}

/** A whole conversation with the blocks of each turn in the order in which they began. */
export interface RestoredTimeline {
  conversation_id: string;
  tail: number;
  blocks: SequencedBlock[];
}

/** Content of one artifact after a call; a later block at the same path holds a newer version. */
export interface ResultContentBlock {
  type: "react.tool.result";
  ts: string;
  meta: ResultContentMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
  base64?: string;
}

/** The `meta` of `react.tool.result`. */
export interface ResultContentMeta {
  tool_call_id: string;
  role: "content";
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  digest?: Digest;
  shown?: Shown;
  hosted_uri?: string;
  rn?: string;
  key?: string;
  physical_path?: string;
  blobs?: Record<string, BlobRef>;
}

/** A call's metadata for one of its artifacts. */
export interface ResultDigestBlock {
  type: "react.tool.result";
  ts: string;
  text: string;
  meta: ResultDigestMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
}

/** The `meta` of `react.tool.result`. */
export interface ResultDigestMeta {
  tool_call_id: string;
  role: "digest";
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
}

/** A call's result as text: a report or status, with a structured error if the call failed. */
export interface ResultStatusBlock {
  type: "react.tool.result";
  ts: string;
  meta: ResultStatusMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
}

/** The `meta` of `react.tool.result`. */
export interface ResultStatusMeta {
  tool_call_id: string;
  role: "status";
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  error?: ToolError;
  shown?: Shown;
  blobs?: Record<string, BlobRef>;
}

/** The recorded round and the re-run round with the same number. */
export interface RoundPair {
  round: number;
  verdict: "differs" | "only_recorded" | "only_rerun" | "same";
  recorded: RoundTrace | null;
  rerun: RoundTrace | null;
}

/** Start of a round; external events after it belong to this round. */
export interface RoundStartedBlock {
  type: "react.round.start";
  ts: string;
  meta: RoundStartedMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
}

/** The `meta` of `react.round.start`. */
export interface RoundStartedMeta {
  round: number;
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
}

/** A round: its calls or its answer, and its effort. */
export interface RoundTrace {
  round: number;
  calls: CallTrace[];
  answer: string;
  effort: Effort;
}

/** Current reactions of people, the number of machine feedbacks, and the share of `ok` among people's reactions. */
export interface Satisfaction {
  ok: number;
  not_ok: number;
  neutral: number;
  machine: number;
  satisfaction: number | null;
}

/** Matches, newest first. `cursor` requests the next page and is empty on the last one. */
export interface SearchPage {
  found: ConversationMatch[];
  cursor: string;
}

/** The receipt of a message or event that is on the timeline. */
export interface SendReceipt {
  conversation_id: string;
  turn_id: string;
  seq: number;
  status: "cancelled" | "compacted" | "compacting" | "decided" | "followup" | "queued" | "started" | "steered" | "told";
}

/** A block with its seq. */
export interface SequencedBlock {
  seq: number;
  block: Block;
}

/** How prompts show a content, decided once at append time: whole, or as the text stored here. `tokens` is the count on which the decision was based. */
export interface Shown {
  how: "preview" | "stub" | "whole";
  tokens?: number;
  text?: string;
  /** What a large content is about, on one line, for the index of its turn. */
  hint?: string;
}

/** A row of the sources pool; it may have further fields. */
export interface SourceRow {
  source_type: "attachment" | "file" | "manual" | "web";
  sid: number;
  title?: string;
  url?: string;
  text?: string;
  content?: string | BlobRef;
  mime?: string;
  size_bytes?: number;
  base64?: string | BlobRef;
  artifact_path?: string;
  physical_path?: string;
  rn?: string;
  hosted_uri?: string;
  key?: string;
  domain?: string;
  favicon?: string;
  published_time_iso?: string;
  modified_time_iso?: string;
  fetched_time_iso?: string;
  provider_rank?: number;
  weighted_rank?: number;
  objective_relevance?: number;
  query_relevance?: number;
  authority?: number | string;
}

/** Rows added to the sources pool, or newer versions of rows with the same sid; their bodies are payloads. */
export interface SourcesAddedBlock {
  type: "conv.sources.added";
  ts: string;
  text: string;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  meta?: SourcesAddedMeta;
}

/** The `meta` of `conv.sources.added`. */
export interface SourcesAddedMeta {
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  tool_call_id?: string;
}

/** Sources in the order of their ids. `cursor` requests the next page and is empty on the last one. */
export interface SourcesPage {
  type: "conv:sources_pool";
  conversation_id: string;
  rows: SourceRow[];
  cursor: string;
}

/** Rows of the sources pool. */
export interface SourcesText {
  rows: SourceRow[];
}

/** The sums of one group; fields that the rows are not grouped by are empty. The calls of deleted conversations are in rows without a conversation. */
export interface SpendRow {
  calls: number;
  /** Calls whose cost is unknown or estimated; if there are any, the cost is at least `cost_nano_usd`. */
  unknown_costs: number;
  input_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
  output_tokens: number;
  cost_nano_usd: number;
  day: string;
  user: string;
  model: string;
  conversation: string;
}

/** Sums over model calls. Sums above 2^53 are reduced to it. */
export interface SpendSums {
  calls: number;
  /** Calls whose cost is unknown or estimated; if there are any, the cost is at least `cost_nano_usd`. */
  unknown_costs: number;
  input_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
  output_tokens: number;
  cost_nano_usd: number;
}

/** A question to the user for clarification. */
export interface StageClarificationBlock {
  type: "stage.clarification";
  ts: string;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
  meta?: StageClarificationMeta;
}

/** The `meta` of `stage.clarification`. */
export interface StageClarificationMeta {
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  blobs?: Record<string, BlobRef>;
}

/** The user's clarification. */
export interface StageClarificationResolvedBlock {
  type: "stage.clarification.resolved";
  ts: string;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
  meta?: StageClarificationResolvedMeta;
}

/** The `meta` of `stage.clarification.resolved`. */
export interface StageClarificationResolvedMeta {
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  blobs?: Record<string, BlobRef>;
}

/** Output of the coordinator stage. */
export interface StageCoordinatorBlock {
  type: "stage.coordinator";
  ts: string;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
  meta?: StageCoordinatorMeta;
}

/** The `meta` of `stage.coordinator`. */
export interface StageCoordinatorMeta {
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  blobs?: Record<string, BlobRef>;
}

/** Output of the feedback stage. */
export interface StageFeedbackBlock {
  type: "stage.feedback";
  ts: string;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
  meta?: StageFeedbackMeta;
}

/** The `meta` of `stage.feedback`. */
export interface StageFeedbackMeta {
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  blobs?: Record<string, BlobRef>;
}

/** Output of the gate stage. */
export interface StageGateBlock {
  type: "stage.gate";
  ts: string;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
  meta?: StageGateMeta;
}

/** The `meta` of `stage.gate`. */
export interface StageGateMeta {
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  blobs?: Record<string, BlobRef>;
}

/** A user message that redirects the turn at once; empty text means stop. `started_ts` is as in `Followup`. */
export interface SteerBlock {
  type: "user.steer";
  ts: string;
  meta: SteerMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
}

/** The `meta` of `user.steer`. */
export interface SteerMeta {
  message_id: string;
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  started_ts?: string;
  blobs?: Record<string, BlobRef>;
}

/** The model's thinking in a round. */
export interface ThinkingBlock {
  type: "react.thinking";
  ts: string;
  meta: ThinkingMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
}

/** The `meta` of `react.thinking`. */
export interface ThinkingMeta {
  round: number;
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  blobs?: Record<string, BlobRef>;
}

/** A whole conversation as `conv.timeline.v1`, with hidden blocks marked in their `meta`. */
export interface TimelineExport {
  type: "conv.timeline.v1";
  conversation_id: string;
  title: string;
  started_ts: string;
  last_ts: string;
  tail: number;
  blocks: Block[];
  sources_pool: SourceRow[];
  chain: ExportedChain;
  tenant?: string;
  project?: string;
  user?: string;
  bundle?: string;
}

/** Blocks in order: the first has the seq `after + 1`. Pass `next` as `after` to get the next page. */
export interface TimelinePage {
  conversation_id: string;
  after: number;
  tail: number;
  blocks: Block[];
  next: number | null;
}

/** The new title of a conversation. */
export interface TitleBody {
  title: string;
}

/** Sets the conversation's title. */
export interface TitledBlock {
  type: "conv.title";
  ts: string;
  text: string;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  meta?: TitledMeta;
}

/** The `meta` of `conv.title`. */
export interface TitledMeta {
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
}

/** Intent to call a tool; `params` is the complete text of one JSON object. */
export interface ToolCallBlock {
  type: "react.tool.call";
  ts: string;
  text: string;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  meta?: ToolCallMeta;
}

/** The `meta` of `react.tool.call`. */
export interface ToolCallMeta {
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  /** The call whose program made this one; None if the model made it. */
  by?: string;
  /** The tool's traits at the time of the call; None stands for the built-in traits of the tool id. */
  traits?: ToolTraits;
  blobs?: Record<string, BlobRef>;
}

/** Program of an exec call; it precedes the call in edition 1 and follows it in edition 2. */
export interface ToolCodeBlock {
  type: "react.tool.code";
  ts: string;
  meta: ToolCodeMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
}

/** The `meta` of `react.tool.code`. */
export interface ToolCodeMeta {
  tool_call_id: string;
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  blobs?: Record<string, BlobRef>;
}

/** Error of a tool, with the code and message that the tool reported. */
export interface ToolError {
  code: string;
  message: string;
  where?: string;
  details?: Record<string, string | number | boolean | null>;
}

/** One of ResultDigestBlock, ResultStatusBlock, ResultContentBlock. */
export type ToolResultBlock = ResultDigestBlock | ResultStatusBlock | ResultContentBlock;

/** Facts about one tool; the defaults describe a tool that brings text from outside and writes no files. */
export interface ToolTraits {
  /** The origin of the text in its results; gates use it to detect untrusted text. */
  result_text?: "file" | "foreign" | "own";
  /** Whether its results show existing artifacts at their paths; such a result is not a new version. */
  reads_artifacts?: boolean;
  /** Whether prompts number the lines of the files in its results, because the model requests lines by number. */
  numbers_lines?: boolean;
  /** Whether its JSON results list found lines: rows with `logical_path` and `matches`. */
  lists_matches?: boolean;
  /** Whether its JSON results list copied files: rows with `path` and `copied_from`. */
  copies_files?: boolean;
  /** Whether its JSON results list files for programs of the turn: `pulled`, rows with `path`. */
  brings_files?: boolean;
  /** The parameter with the path of the file that it writes; empty if it has none. */
  path_param?: string;
  /** The parameter with the text that its files contain; empty if its files contain none of its parameters. */
  content_param?: string;
  /** Whether the model needs no result of it, so that a final answer may follow it in the same reply. */
  allows_answer?: boolean;
  /** Whether it starts, replaces or closes plans. */
  manages_plans?: boolean;
  /** Whether it runs the program of the code channel. */
  runs_code?: boolean;
  /** Whether it is meant to be called again until its result changes, so that repeated calls are not stopped. */
  polled?: boolean;
  /** Parameters with the web addresses that it requests; gates look at addresses that nobody wrote before. */
  address_params?: string[];
  /** Whether its parameters are a form, which a person answers by an event. */
  asks_by_form?: boolean;
  /** Whether it reads and writes only the conversation and its files; re-runs then execute it again. */
  conversation_only?: boolean;
}

/** End of a turn, with the reason. */
export interface TurnEndedBlock {
  type: "react.turn.end";
  ts: string;
  meta: TurnEndedMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
}

/** The `meta` of `react.turn.end`. */
export interface TurnEndedMeta {
  reason: "budget_exhausted" | "cancelled" | "completed" | "exited" | "max_iterations" | "no_progress" | "protocol_failure" | "provider_error" | "refused" | "runtime_error" | "stopped";
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
}

/** Feedback on a turn that is still in effect. */
export interface TurnFeedback {
  seq: number;
  ts: string;
  origin: "machine" | "user";
  reaction: "neutral" | "not_ok" | "ok" | null;
  text: string;
  confidence: number | null;
  author: string;
  given_ts: string;
}

/** A message of the turn with its full text. */
export interface TurnMessage {
  seq: number;
  type: string;
  path: string;
  author: string;
  ts: string;
  mime: string;
  text: string;
}

/** A turn with its number, start, end reason, messages, files and feedback. */
export interface TurnOverview {
  turn_id: string;
  n: number;
  started_ts: string;
  ended: "budget_exhausted" | "cancelled" | "completed" | "exited" | "max_iterations" | "no_progress" | "protocol_failure" | "provider_error" | "refused" | "runtime_error" | "stopped" | null;
  messages: TurnMessage[];
  files: FileInfo[];
  feedbacks: TurnFeedback[];
}

/** A turn as it was recorded and as it was run again. */
export interface TurnPair {
  turn_id: string;
  prompt: string;
  verdict: "differs" | "only_recorded" | "only_rerun" | "same";
  recorded_end: string;
  rerun_end: string;
  /** The explanation of that end, such as why the re-run was interrupted. */
  rerun_end_text: string;
  rounds: RoundPair[];
}

/** Start of a turn; `n` is its ordinal in the conversation. With `rerun` the turn belongs to a re-run, which supplies its model and tools. Only that re-run may continue it. */
export interface TurnStartedBlock {
  type: "turn.header";
  ts: string;
  meta: TurnStartedMeta;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
}

/** The `meta` of `turn.header`. */
export interface TurnStartedMeta {
  n: number;
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  rerun?: boolean;
  /** The edition of everything that the model reads and writes in the turn. */
  edition?: number;
  /** The JSON schema of the turn's answer, as compact JSON; empty if the answer is plain text. */
  output?: string;
  /** The channels that the turn declares beside the built-in ones. */
  channels?: DeclaredChannel[];
}

/** Selects turns with feedback by turn id, reaction and origin. */
export interface TurnsBody {
  turn_ids?: string[] | null;
  reactions?: ("neutral" | "not_ok" | "ok")[];
  origin?: "machine" | "user" | null;
  cursor?: string;
  limit?: number;
}

/** Turns in order. `cursor` requests the next page and is empty on the last one. */
export interface TurnsPage {
  conversation: ConversationInfo;
  turns: TurnOverview[];
  cursor: string;
}

/** Turns in order. `counts` covers the whole conversation; `cursor` requests the next page. */
export interface TurnsWithFeedbacks {
  conversation_id: string;
  user_id: string;
  counts: Satisfaction;
  turns: TurnOverview[];
  cursor: string;
}

/** Tokens and cost of a model call, as reported by its provider; `cost_nano_usd` is in billionths of a dollar. */
export interface Usage {
  input_tokens?: number;
  cache_read_tokens?: number;
  cache_write_tokens?: number;
  /** The part of `cache_write_tokens` that the provider keeps for an hour. */
  cache_write_1h_tokens?: number;
  output_tokens?: number;
  cost_nano_usd?: number;
}

/** The user message that opens the turn. */
export interface UserPromptBlock {
  type: "user.prompt";
  ts: string;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
  meta?: UserPromptMeta;
}

/** The `meta` of `user.prompt`. */
export interface UserPromptMeta {
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  /** Roles of the messages that the text quotes from a client's history, except those of the user. */
  quoted_roles?: string[];
  blobs?: Record<string, BlobRef>;
}

/** A call that waits for a decision, with its question and its conversation. */
export interface WaitingApproval {
  conversation_id: string;
  title: string;
  /** The owner of the conversation. */
  user: string;
  turn_id: string;
  seq: number;
  tool_call_id: string;
  tool_id: string;
  /** The question. */
  text: string;
  policy: string;
  /** When the question was asked. */
  ts: string;
}

/** A widget: its bundle, empty for an agent without one, its name, and the title of its frame. */
export interface WidgetInfo {
  bundle: string;
  name: string;
  title: string;
}

/** Summary of a turn for later turns; `n` numbers the summaries of one turn. */
export interface WorkingSummaryBlock {
  type: "conv.working.summary";
  ts: string;
  author?: string;
  turn_id?: string;
  mime?: string;
  path?: string;
  text?: string;
  meta?: WorkingSummaryMeta;
}

/** The `meta` of `conv.working.summary`. */
export interface WorkingSummaryMeta {
  /** Whether the content was erased permanently; type, seq and path remain. */
  erased?: boolean;
  n?: number;
  blobs?: Record<string, BlobRef>;
}

/** The data of each event of a stream, by the event's name. */
export interface StreamData {
  "chat.start": ChatStart;
  "chat.step": ChatStep;
  "chat.delta": ChatDelta;
  "chat.block": ChatBlock;
  "chat.compaction": ChatCompaction;
  "chat.approval": ChatApproval;
  "chat.complete": ChatComplete;
  "chat.error": ChatError;
  "conv.status": ConvStatus;
}

/** An event of a stream whose name is known. */
export type StreamEvent = {
  [K in keyof StreamData]: { event: K; data: StreamData[K] };
}[keyof StreamData];

/** The arguments and the result of each operation. */
export interface Operations {
  /** Check that the server is up, and which bundles are disabled by a fault. */
  get_health: { arguments: Record<never, never>; result: Health };
  /** Check that the server accepts requests: its store responds, its last write succeeded, it is not shutting down. */
  get_ready: { arguments: Record<never, never>; result: Health };
  /** Return the current user, their project, the models and the upload limits. */
  get_me: { arguments: Record<never, never>; result: Me };
  /** Return the document of a widget, for a frame that has no origin and may not send requests. */
  get_widget: { arguments: { widget: string; query?: { bundle?: string; } }; result: undefined };
  /** List decisions, erasures, deletions and access to conversations of other users, oldest first. */
  get_audit: { arguments: { query?: { cursor?: string; limit?: number; } }; result: AuditPage };
  /** Send a message. It starts a turn, or becomes a follow-up of the running turn. */
  post_message: { arguments: { body: MessageBody }; result: SendReceipt };
  /** Stream the events of a conversation, beginning after the block `Last-Event-ID`. */
  get_stream: { arguments: { conversation_id: string; query?: { after?: number; } }; result: undefined };
  /** Send an event to the running turn. If the turn cannot accept it any more, it starts the next turn. */
  post_event: { arguments: { conversation_id: string; body: EventBody }; result: SendReceipt };
  /** List the bundles that a new conversation may name in `bundle`. */
  list_bundles: { arguments: Record<never, never>; result: BundleList };
  /** List the calls of the project that wait for a decision of the caller. */
  list_approvals: { arguments: { query?: { cursor?: string; limit?: number; } }; result: ApprovalsPage };
  /** Return what model calls of the project have cost, by day, user, model or conversation. */
  get_spend: { arguments: { query?: { by?: string; since?: string; until?: string; user?: string; cursor?: string; limit?: number; } }; result: Bill };
  /** List the caller's conversations with their states, newest first. */
  list_conversations: { arguments: { query?: { words?: string; cursor?: string; limit?: number; user?: string; } }; result: ConversationList };
  /** Search the caller's conversations for all of the words and return matching messages. */
  search_conversations: { arguments: { query: { words: string; cursor?: string; limit?: number; hits?: number; user?: string; } }; result: SearchPage };
  /** Return the turns of a conversation with their messages, files and feedback. */
  post_fetch: { arguments: { body: FetchBody }; result: TurnsPage };
  /** List the conversations that received feedback in a period, with satisfaction counts. */
  post_conversations_in_period: { arguments: { body: PeriodBody }; result: ConversationsInPeriod };
  /** Return the owner, the title, the last entry and the state of a conversation, and what the caller may do. */
  get_conversation: { arguments: { conversation_id: string }; result: ConversationDetails };
  /** Permanently delete the conversation and its files. */
  delete_conversation: { arguments: { conversation_id: string }; result: undefined };
  /** Return the stored blocks page by page, in the same form as the event stream. */
  get_timeline: { arguments: { conversation_id: string; query?: { after?: number; limit?: number; form?: "blocks" | "export" | "restored"; } }; result: TimelinePage | TimelineExport | RestoredTimeline };
  /** Return the complete sources of the conversation as `conv:sources_pool`, page by page. */
  get_sources: { arguments: { conversation_id: string; query?: { cursor?: string; limit?: number; } }; result: SourcesPage };
  /** Return the current state: idle, a running turn, or a turn that waits for approval. */
  get_status: { arguments: { conversation_id: string }; result: ConvStatus };
  /** Return the prompt of a round, rebuilt from the log. Default: the newest round. */
  get_prompt: { arguments: { conversation_id: string; query?: { round?: number; turn?: string; attempt?: number; } }; result: PromptDetails };
  /** List the downloadable files of the conversation. */
  list_files: { arguments: { conversation_id: string; query?: { cursor?: string; limit?: number; } }; result: FilesPage };
  /** Download the newest version of a file, or a range of it. */
  get_file: { arguments: { conversation_id: string; query: { path: string; disposition?: "attachment" | "inline"; } }; result: undefined };
  /** Return the URL, the resource name and the type of a file. */
  get_artifact_url: { arguments: { conversation_id: string; query: { path: string; } }; result: FileInfo };
  /** Resolve a resource name to its file and URL. */
  post_by_rn: { arguments: { body: ResourceBody }; result: FileInfo };
  /** List the pinned blocks, which survive pruning and compaction. */
  list_pins: { arguments: { conversation_id: string }; result: PinList };
  /** Pin the blocks at a path, so that they survive pruning and compaction, or end their pin. */
  post_pin: { arguments: { conversation_id: string; body: PinBody }; result: PinReceipt };
  /** Set the title of the conversation. */
  post_title: { arguments: { conversation_id: string; body: TitleBody }; result: ConversationTitle };
  /** Record feedback on a turn. Feedback of a person replaces their previous one. */
  post_feedback: { arguments: { conversation_id: string; turn_id: string; body: FeedbackBody }; result: FeedbackReceipt };
  /** List the turns of a conversation that have feedback, with their messages. */
  post_turns_with_feedbacks: { arguments: { conversation_id: string; body: TurnsBody }; result: TurnsWithFeedbacks };
  /** Fork the conversation: create an independent copy up to a turn or an entry. */
  post_fork: { arguments: { conversation_id: string; body: ForkBody }; result: ForkResult };
  /** Run the turns after an entry again, on a fork, with the server's model or another selectable one. */
  post_rerun: { arguments: { conversation_id: string; body: RerunBody }; result: RerunJob };
  /** Cancel the re-run of a fork, which ends its turn. */
  delete_rerun: { arguments: { conversation_id: string }; result: undefined };
  /** Compare the turns of a fork with those of its source after the fork point. */
  get_comparison: { arguments: { conversation_id: string; query?: { turns?: number; cursor?: string; } }; result: ForkComparison };
  /** Permanently erase the content at some paths, or all of it, including everything derived from it. */
  post_erase: { arguments: { conversation_id: string; body: EraseBody }; result: ErasureReport };
  /** Approve or reject a call that waits for approval; the turn then continues. */
  post_approval: { arguments: { conversation_id: string; call_id: string; body: DecisionBody }; result: SendReceipt };
}

/** The method and the path of each operation; tenant and project are those of the client. */
export const ROUTES: Record<keyof Operations, readonly [string, string]> = {
  get_health: ["GET", "/health"],
  get_ready: ["GET", "/ready"],
  get_me: ["GET", "/me"],
  get_widget: ["GET", "/widgets/{widget}"],
  get_audit: ["GET", "/audit/{tenant}/{project}"],
  post_message: ["POST", "/chat/{tenant}/{project}"],
  get_stream: ["GET", "/chat/{tenant}/{project}/{conversation_id}/stream"],
  post_event: ["POST", "/events/{tenant}/{project}/{conversation_id}"],
  list_bundles: ["GET", "/bundles/{tenant}/{project}"],
  list_approvals: ["GET", "/approvals/{tenant}/{project}"],
  get_spend: ["GET", "/spend/{tenant}/{project}"],
  list_conversations: ["GET", "/conversations/{tenant}/{project}"],
  search_conversations: ["GET", "/conversations/{tenant}/{project}/search"],
  post_fetch: ["POST", "/conversations/{tenant}/{project}/fetch"],
  post_conversations_in_period: ["POST", "/conversations/{tenant}/{project}/feedback/conversations-in-period"],
  get_conversation: ["GET", "/conversations/{tenant}/{project}/{conversation_id}"],
  delete_conversation: ["DELETE", "/conversations/{tenant}/{project}/{conversation_id}"],
  get_timeline: ["GET", "/conversations/{tenant}/{project}/{conversation_id}/timeline"],
  get_sources: ["GET", "/conversations/{tenant}/{project}/{conversation_id}/sources"],
  get_status: ["GET", "/conversations/{tenant}/{project}/{conversation_id}/status"],
  get_prompt: ["GET", "/conversations/{tenant}/{project}/{conversation_id}/prompt"],
  list_files: ["GET", "/conversations/{tenant}/{project}/{conversation_id}/files"],
  get_file: ["GET", "/conversations/{tenant}/{project}/{conversation_id}/file"],
  get_artifact_url: ["GET", "/conversations/{tenant}/{project}/{conversation_id}/file/url"],
  post_by_rn: ["POST", "/by-rn"],
  list_pins: ["GET", "/conversations/{tenant}/{project}/{conversation_id}/pins"],
  post_pin: ["POST", "/conversations/{tenant}/{project}/{conversation_id}/pins"],
  post_title: ["POST", "/conversations/{tenant}/{project}/{conversation_id}/title"],
  post_feedback: ["POST", "/conversations/{tenant}/{project}/{conversation_id}/turns/{turn_id}/feedback"],
  post_turns_with_feedbacks: ["POST", "/conversations/{tenant}/{project}/{conversation_id}/turns-with-feedbacks"],
  post_fork: ["POST", "/conversations/{tenant}/{project}/{conversation_id}/fork"],
  post_rerun: ["POST", "/conversations/{tenant}/{project}/{conversation_id}/rerun"],
  delete_rerun: ["DELETE", "/conversations/{tenant}/{project}/{conversation_id}/rerun"],
  get_comparison: ["GET", "/conversations/{tenant}/{project}/{conversation_id}/comparison"],
  post_erase: ["POST", "/conversations/{tenant}/{project}/{conversation_id}/erase"],
  post_approval: ["POST", "/conversations/{tenant}/{project}/{conversation_id}/approvals/{call_id}"],
};
