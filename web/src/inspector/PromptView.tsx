/** The exact prompt of a round, with its cache points, its cache usage and the change that broke the cached prefix. */
import { Fragment, useEffect, useState } from "react";
import { type CachePoint, call, type Prompt, type PromptChange, type ReplayedCall } from "../api/client";
import { between, bytes, count, money } from "../app/format";
import { errorMessage, useAppStore } from "../app/appStore";
import { CopyButton } from "../markdown/CodeBlock";
import { ForkButton } from "./ForkButton";
import { type Round, tokensOf } from "./rounds";
import { RerunPanel } from "./RerunPanel";
import { estimate } from "./tokens";

type Reason = PromptChange["reason"];

interface Props {
  round: Round;
  showBlock: (seq: number) => void;
}

export function PromptView({ round, showBlock }: Props) {
  const { prompt, problem } = usePrompt(round);
  return (
    <div className="prompt" aria-busy={!prompt && !problem}>
      <Figures round={round} />
      {prompt && <Checks call={prompt.call} isFirst={round.at === 0} showBlock={showBlock} />}
      <div className="row">
        <ForkButton seq={round.seq - 1} label="Fork before this round" />
        {prompt && <CopyButton text={textOf(prompt)} label="Copy prompt" />}
      </div>
      <RerunPanel round={round} />
      {problem && <div className="trouble" role="note">{problem}</div>}
      {prompt && <Segments prompt={prompt} />}
    </div>
  );
}

/** The prompts viewed last. A prompt does not change once its call has ended. */
const cached = new Map<string, Prompt>();
const MAX_CACHED = 20;

function usePrompt(round: Round): { prompt: Prompt | null; problem: string } {
  const id = useAppStore((state) => state.open?.id ?? "");
  const key = `${id} ${round.seq} ${round.endedTs}`;
  const [loaded, setLoaded] = useState({ key: "", problem: "" });
  useEffect(() => {
    if (cached.has(key)) return undefined;
    let isActive = true;
    const query = { turn: round.turnId, round: round.round, attempt: round.attempt };
    call("get_prompt", { conversation_id: id, query }).then(
      (prompt) => {
        cached.set(key, prompt);
        if (cached.size > MAX_CACHED) cached.delete(cached.keys().next().value!);
        if (isActive) setLoaded({ key, problem: "" });
      },
      (error: unknown) => isActive && setLoaded({ key, problem: errorMessage(error) }),
    );
    return () => {
      isActive = false;
    };
  }, [key]);
  return { prompt: cached.get(key) ?? null, problem: loaded.key === key ? loaded.problem : "" };
}

function Figures({ round }: { round: Round }) {
  const { read, written, plain, isReported } = tokensOf(round);
  const all = Math.max(1, read + written + plain);
  return (
    <section className="prompt-figures" aria-label="Usage">
      <svg viewBox="0 0 100 4" preserveAspectRatio="none" role="img" aria-label={`${Math.round((100 * read) / all)}% read from the cache`}>
        <rect className="strip-read" x={0} y={0} height={4} width={(100 * read) / all} />
        <rect className="strip-written" x={(100 * read) / all} y={0} height={4} width={(100 * written) / all} />
        <rect className="strip-plain" x={(100 * (read + written)) / all} y={0} height={4} width={(100 * plain) / all} />
      </svg>
      <dl className="figure-list">
        <div><dt>From cache</dt><dd>{count(read)}</dd></div>
        <div><dt>To cache</dt><dd>{count(written)}</dd></div>
        <div><dt>Not cached</dt><dd>{count(plain)}</dd></div>
        <div><dt>Reply</dt><dd>{count(round.used.output)}</dd></div>
        <div><dt>Cost</dt><dd>{round.used.cost ? money(round.used.cost) : "not priced"}</dd></div>
        <div><dt>Time</dt><dd>{between(round.startedTs, round.endedTs) || "running"}</dd></div>
      </dl>
      <p className="dim">
        {round.model}
        {round.attempt > 1 && `, attempt ${round.attempt}`}
        {!isReported && ". The provider did not report its cache usage, so these numbers are estimates."}
      </p>
    </section>
  );
}

const VERDICTS: Record<ReplayedCall["verdict"], string> = {
  same: "Identical to the prompt that was sent: its hash matches the recorded one.",
  differs: "Not identical to the prompt that was sent: the log now produces different bytes.",
  unchecked: "It is no longer possible to check whether this is the prompt that was sent.",
};

const REASONS: Record<Reason, string> = {
  edit: "the log was changed, or it is rendered differently now",
  hide: "content was hidden",
  prune: "older steps were shortened",
  compaction: "earlier messages were summarized",
  system: "the system text changed",
  catalogue: "the catalogue of tools and skills changed",
  rendering: "another version of timeloom rendered the prompt",
  model: "the previous call used another model",
  expired: "the cache entry had expired",
  too_small: "the prefix is smaller than the provider's minimum",
  look_back: "the cache point was further back than the provider searches",
  evicted: "the provider removed the cache entry before it expired",
  more_kept: "the provider had cached more than expected",
  not_reported: "the provider did not report its cache usage",
  no_outcome: "the log has no outcome for the call",
  estimate: "the token estimate was off",
};

/** Reasons that only affect the token counts. The prefix was reused. */
const PREFIX_REUSED = new Set<Reason>(["not_reported", "no_outcome", "estimate", "more_kept"]);

function Checks({ call, isFirst, showBlock }: { call: ReplayedCall; isFirst: boolean; showBlock: (seq: number) => void }) {
  const change = call.cache?.change;
  const isBroken = change && !PREFIX_REUSED.has(change.reason);
  const firstChanged = change?.seq ?? 0;
  return (
    <ul className="verdicts">
      <li className={`verdict verdict-${call.verdict}`}>{VERDICTS[call.verdict]}</li>
      {isBroken && (
        <li className="verdict verdict-broke">
          The prefix of the previous round was not reused: {REASONS[change.reason]}.{" "}
          {firstChanged > 0 && (
            <>First changed block: <button type="button" className="link" onClick={() => showBlock(firstChanged)}>{firstChanged} {change.path}</button></>
          )}
        </li>
      )}
      {call.cache && !isBroken && <li className="verdict">{isFirst ? "This is the first round, so there is no previous prompt" : "The prefix of the previous round was sent again unchanged"}{change ? `; ${REASONS[change.reason]}` : ""}.</li>}
    </ul>
  );
}

/** How many of the newest segments are expanded, since a round usually adds that many. */
const EXPANDED = 3;

function Segments({ prompt }: { prompt: Prompt }) {
  const points = prompt.call.cache?.expected.points ?? [];
  const hit = prompt.call.cache?.expected.hit ?? null;
  const point = (blocks: number) => points.find((one) => one.blocks === blocks);
  const last = prompt.segments.length - 1;
  return (
    <section aria-label="Prompt as sent">
      <ol className="pieces">
        <Segment name="System" text={prompt.system} bytes={new Blob([prompt.system]).size} isRead={hit !== null} isCollapsed />
        {point(0) && <Point point={point(0)} />}
        {prompt.segments.map((segment, at) => {
          const isRead = hit !== null && at < hit.blocks;
          return (
            <Fragment key={at}>
              <Segment name={`Segment ${at + 1}`} text={segment.text || `[${segment.mime}]`} bytes={segment.size_bytes} isRead={isRead} isCollapsed={isRead || at <= last - EXPANDED} />
              {segment.cache_point && <Point point={point(at + 1)} />}
            </Fragment>
          );
        })}
        <Segment name="Tail (never cached)" text={prompt.tail} bytes={new Blob([prompt.tail]).size} isRead={false} isCollapsed={false} />
      </ol>
    </section>
  );
}

function Segment({ name, text, bytes: size, isRead, isCollapsed }: { name: string; text: string; bytes: number; isRead: boolean; isCollapsed: boolean }) {
  const [open, setOpen] = useState(!isCollapsed);
  return (
    <li className={`piece${isRead ? " cached" : ""}`}>
      <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <span>{name}</span>
          {isRead && <span className="piece-tag">read from cache</span>}
          <span className="dim">{bytes(size)}, about {count(estimate(text))} tokens</span>
        </summary>
        {open && <pre tabIndex={0} aria-label={name}>{text}</pre>}
      </details>
    </li>
  );
}

function Point({ point }: { point: CachePoint | undefined }) {
  const lifetime = point?.lifetime === "1h" ? "1 hour" : "5 minutes";
  return <li className="cache-point"><span>cache point{point && ` · ${count(point.tokens)} tokens so far · ${point.small ? "too small to be cached" : `cached for ${lifetime}`}`}</span></li>;
}

function textOf(prompt: Prompt): string {
  return [prompt.system, ...prompt.segments.map((segment) => segment.text), prompt.tail].join("\n\n");
}
