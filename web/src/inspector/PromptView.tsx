/** What the model was sent in a round, exactly: with its cache points, what was read from the cache, and what broke the prefix. */
import { Fragment, useEffect, useState } from "react";
import { address, get, type Prompt, type Schemas, withQuery } from "../api/client";
import { between, bytes, count, money } from "../app/format";
import { usePage, wordsOf } from "../app/store";
import { CopyButton } from "../markdown/CodeBlock";
import { ForkButton } from "./ForkButton";
import { type Round, tokensOf } from "./rounds";
import { RunAgain } from "./RunAgain";
import { estimate } from "./tokens";

type Reason = Schemas["Change"]["reason"];

interface Props {
  round: Round;
  showBlock: (seq: number) => void;
}

export function PromptView({ round, showBlock }: Props) {
  const { prompt, problem } = usePrompt(round);
  return (
    <div className="prompt" aria-busy={!prompt && !problem}>
      <Figures round={round} />
      {prompt && <Verdicts call={prompt.call} isFirst={round.at === 0} showBlock={showBlock} />}
      <div className="row">
        <ForkButton seq={round.seq - 1} label="Fork before this round" />
        {prompt && <CopyButton text={textOf(prompt)} label="Copy the prompt" />}
      </div>
      <RunAgain round={round} />
      {problem && <div className="trouble" role="note">{problem}</div>}
      {prompt && <Pieces prompt={prompt} />}
    </div>
  );
}

/** Requests do not change once they were answered; the last ones that were looked at are kept. */
const known = new Map<string, Prompt>();
const MOST_KNOWN = 20;

function usePrompt(round: Round): { prompt: Prompt | null; problem: string } {
  const id = usePage((state) => state.open?.id ?? "");
  const key = `${id} ${round.seq} ${round.endedTs}`;
  const [got, setGot] = useState({ key: "", problem: "" });
  useEffect(() => {
    if (known.has(key)) return undefined;
    let wanted = true;
    const path = withQuery(address("conversations", id, "prompt"), { turn: round.turnId, round: round.round, attempt: round.attempt });
    get<Prompt>(path).then(
      (prompt) => {
        known.set(key, prompt);
        if (known.size > MOST_KNOWN) known.delete(known.keys().next().value!);
        if (wanted) setGot({ key, problem: "" });
      },
      (error: unknown) => wanted && setGot({ key, problem: wordsOf(error) }),
    );
    return () => {
      wanted = false;
    };
  }, [key]);
  return { prompt: known.get(key) ?? null, problem: got.key === key ? got.problem : "" };
}

function Figures({ round }: { round: Round }) {
  const { read, written, plain, isReported } = tokensOf(round);
  const all = Math.max(1, read + written + plain);
  return (
    <section className="prompt-figures" aria-label="What it used">
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
        {!isReported && ". The provider told nothing of its cache: these are the tokens that were expected."}
      </p>
    </section>
  );
}

const VERDICTS: Record<Schemas["ReplayedCall"]["verdict"], string> = {
  same: "This is byte for byte what was sent: its hash is the one recorded then.",
  differs: "This is not what was sent: the log now gives other bytes.",
  unchecked: "Whether this is what was sent cannot be checked any more.",
};

const REASONS: Record<Reason, string> = {
  edit: "the log was changed, or is rendered otherwise than it was sent",
  hide: "something was put away",
  prune: "older steps were shortened",
  compaction: "earlier parts were summed up",
  system: "the system text changed",
  catalogue: "the catalogue of tools and skills changed",
  rendering: "another version of timeloom rendered the prompt",
  model: "another model was asked before",
  expired: "its lifetime was over",
  too_small: "the prefix is smaller than the provider keeps",
  look_back: "it was further back than the provider looks",
  evicted: "the provider did not have it, though its lifetime was not over",
  more_kept: "the provider had more than was known here",
  not_reported: "the provider did not say what it read from a cache",
  no_outcome: "the log does not say how the call ended",
  estimate: "the count of tokens was off",
};

/** Reasons that are about how a call was counted: its prefix held. */
const KEPT = new Set<Reason>(["not_reported", "no_outcome", "estimate", "more_kept"]);

function Verdicts({ call, isFirst, showBlock }: { call: Schemas["ReplayedCall"]; isFirst: boolean; showBlock: (seq: number) => void }) {
  const change = call.cache?.change;
  const broke = change && !KEPT.has(change.reason);
  return (
    <ul className="verdicts">
      <li className={`verdict verdict-${call.verdict}`}>{VERDICTS[call.verdict]}</li>
      {broke && (
        <li className="verdict verdict-broke">
          The prefix of the round before did not hold: {REASONS[change.reason]}.{" "}
          {change.seq > 0 && (
            <>First block shown otherwise: <button type="button" className="link" onClick={() => showBlock(change.seq)}>{change.seq} {change.path}</button></>
          )}
        </li>
      )}
      {call.cache && !broke && <li className="verdict">{isFirst ? "This is the first round: nothing was sent before it" : "All that the round before had sent was sent again as it was"}{change ? `; ${REASONS[change.reason]}` : ""}.</li>}
    </ul>
  );
}

/** How many of the newest segments are open: those that a round added. */
const SHOWN = 3;

function Pieces({ prompt }: { prompt: Prompt }) {
  const points = prompt.call.cache?.expected.points ?? [];
  const hit = prompt.call.cache?.expected.hit ?? null;
  const point = (blocks: number) => points.find((one) => one.blocks === blocks);
  const last = prompt.segments.length - 1;
  return (
    <section aria-label="The prompt as it was sent">
      <ol className="pieces">
        <Piece name="System" text={prompt.system} bytes={new Blob([prompt.system]).size} isRead={hit !== null} isFolded />
        {point(0) && <Point point={point(0)} />}
        {prompt.segments.map((segment, at) => {
          const isRead = hit !== null && at < hit.blocks;
          return (
            <Fragment key={at}>
              <Piece name={`Segment ${at + 1}`} text={segment.text || `[${segment.mime}]`} bytes={segment.size_bytes} isRead={isRead} isFolded={isRead || at <= last - SHOWN} />
              {segment.cache_point && <Point point={point(at + 1)} />}
            </Fragment>
          );
        })}
        <Piece name="Tail, which no cache keeps" text={prompt.tail} bytes={new Blob([prompt.tail]).size} isRead={false} isFolded={false} />
      </ol>
    </section>
  );
}

function Piece({ name, text, bytes: size, isRead, isFolded }: { name: string; text: string; bytes: number; isRead: boolean; isFolded: boolean }) {
  const [open, setOpen] = useState(!isFolded);
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

function Point({ point }: { point: Schemas["CachePoint"] | undefined }) {
  const life = point?.lifetime === "1h" ? "1 hour" : "5 minutes";
  return <li className="cache-point"><span>cache point{point && ` · ${count(point.tokens)} tokens so far · ${point.small ? "too small to be kept" : `kept ${life}`}`}</span></li>;
}

function textOf(prompt: Prompt): string {
  return [prompt.system, ...prompt.segments.map((segment) => segment.text), prompt.tail].join("\n\n");
}
