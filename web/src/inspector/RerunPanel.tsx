/** What follows a round, run again with a model of one's choice, beside what was recorded. */
import { useEffect, useState } from "react";
import { address, get, post, ProblemError, request, type Schemas, withQuery } from "../api/client";
import { pause } from "../api/stream";
import { count, duration, money } from "../app/format";
import { Icon } from "../app/Icon";
import { link } from "../app/route";
import { listConversations, sentence, tellUser, usePage, wordsOf } from "../app/store";
import { DiffView } from "../canvas/DiffView";
import { Markdown } from "../markdown/Markdown";
import type { Round } from "./rounds";

type Compared = Schemas["ComparedFork"];
type Pair = Schemas["RoundPair"];
type Side = "recorded" | "rerun";

const SIDES: Side[] = ["recorded", "rerun"];

/** How often a run is looked at, and how seldom at last where nobody answers. */
const LOOK_MS = 700;
const LONGEST_WAIT_MS = 10000;

/** How much of a call's parameters is shown; the conversations have all of them. */
const PARAMS_CHARS = 160;

/** The newest run of each round that was run again since the page was opened. */
const forks = new Map<string, string>();

export function RunAgain({ round }: { round: Round }) {
  const id = usePage((state) => state.open?.id ?? "");
  const models = usePage((state) => state.me?.models) ?? [];
  const key = `${id} ${round.seq}`;
  const [model, setModel] = useState(models.find((one) => one !== round.model) ?? models[0] ?? "");
  const [fork, setFork] = useState(forks.get(key) ?? "");
  const [problem, setProblem] = useState("");
  const { found, lost } = useComparison(fork, setProblem);
  const [asking, setAsking] = useState(false);
  const isBusy = asking || (fork !== "" && !problem && (!found || isUnderWay(found)));
  const run = async () => {
    setAsking(true);
    setProblem("");
    try {
      const started = await post<Schemas["RerunStarted"]>(address("conversations", id, "rerun"), { seq: round.seq - 1, model, turns: 1 });
      forks.set(key, started.conversation_id);
      setFork(started.conversation_id);
    } catch (error) {
      setProblem(wordsOf(error));
    } finally {
      setAsking(false);
    }
  };
  const stop = async () => {
    try {
      await request("DELETE", address("conversations", fork, "rerun"));
    } catch (error) {
      // Whatever has ended meanwhile need not be stopped.
      if (!(error instanceof ProblemError && error.code === "turn_not_running")) tellUser(wordsOf(error));
    }
  };
  return (
    <section className="again" aria-label="Run again">
      <div className="row">
        <label htmlFor="again-model">Run again with</label>
        <select id="again-model" value={model} disabled={isBusy} onChange={(event) => setModel(event.currentTarget.value)}>
          {models.map((one) => <option key={one}>{one}</option>)}
        </select>
        <button type="button" className="quiet small" disabled={isBusy || !model} onClick={() => void run()}><Icon name="fork" /> Run again from this round</button>
        {found?.status.state === "running" && <button type="button" className="quiet small" onClick={() => void stop()}>Stop</button>}
      </div>
      <p className="dim">On a fork: this conversation stays as it is. Calls that were made before get their recorded results; no others are made.</p>
      {problem && <div className="trouble" role="note">{problem}</div>}
      {(lost || found) && <p role="status">{lost || (found && told(found))}</p>}
      {found && <Both found={found} />}
    </section>
  );
}

interface Looked {
  found: Compared | null;
  /** Why nobody knows how far it is by now. */
  lost: string;
}

function useComparison(fork: string, fail: (words: string) => void): Looked {
  const [looked, setLooked] = useState<Looked>({ found: null, lost: "" });
  useEffect(() => {
    if (!fork) return undefined;
    const closing = new AbortController();
    void look(fork, setLooked, fail, closing.signal);
    return () => closing.abort();
  }, [fork]);
  return looked.found && looked.found.conversation_id !== fork ? { found: null, lost: "" } : looked;
}

/** Looks at a run until it has ended; while nobody answers, ever more seldom, and at once when the network is back. */
async function look(fork: string, tell: (change: (before: Looked) => Looked) => void, fail: (words: string) => void, closed: AbortSignal): Promise<void> {
  let wait = LOOK_MS;
  while (!closed.aborted) {
    try {
      const found = await get<Compared>(withQuery(address("conversations", fork, "comparison"), { turns: 1 }));
      if (closed.aborted) return;
      tell(() => ({ found, lost: "" }));
      if (!isUnderWay(found)) {
        // With the end of its first turn it has a title.
        await listConversations();
        return;
      }
      wait = found.status.state === "running" ? LOOK_MS : longer(wait);
    } catch (error) {
      if (closed.aborted) return;
      if (!isPassing(error)) {
        fail(wordsOf(error));
        return;
      }
      tell((before) => ({ ...before, lost: lostWords(error) }));
      wait = longer(wait);
    }
    await pause(wait, closed);
  }
}

const longer = (wait: number) => Math.min(wait * 2, LONGEST_WAIT_MS);

/** Whether it is worth another try. */
function isPassing(error: unknown): error is ProblemError {
  return error instanceof ProblemError && (error.status === 0 || [408, 429].includes(error.status) || error.status >= 500);
}

function lostWords(error: ProblemError): string {
  if (error.status === 0) return "The connection is lost. The re-run does not need this page; looking again as soon as the server can be reached…";
  return `${wordsOf(error)} The re-run does not need this page; looking again…`;
}

/** Whether more will come: also where the server that ran it stopped, until the next one has ended its turn. */
function isUnderWay({ status }: Compared): boolean {
  return status.state === "running" || status.state === "interrupted";
}

function Both({ found }: { found: Compared }) {
  const { comparison } = found;
  const turn = comparison.turns[0];
  const rounds = turn?.rounds ?? [];
  const [before, after] = SIDES.map((side) => answerIn(rounds, side)) as [string, string];
  const isRunning = isUnderWay(found);
  return (
    <>
      <div className="again-scroll" tabIndex={0} role="region" aria-label="Both courses">
        <table className="again-table">
          <thead>
            <tr>
              <th scope="col"><span className="sr">What</span></th>
              <th scope="col"><a href={link(comparison.forked_from.conversation_id)}>Recorded</a><br /><span className="dim">{comparison.recorded_models.join(", ")}</span></th>
              <th scope="col"><a href={link(found.conversation_id)}>Run again</a><br /><span className="dim">{comparison.rerun_models.join(", ")}</span></th>
            </tr>
          </thead>
          <tbody>
            {FIGURES.map(([name, figure]) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                {SIDES.map((side) => <td key={side}>{figure(comparison[side])}</td>)}
              </tr>
            ))}
            {rounds.map((pair) => (
              <tr key={pair.round} className={`again-${pair.verdict}`}>
                <th scope="row">Round {pair.round}</th>
                <td>{decisionIn(pair.recorded)}</td>
                <td>{pair.verdict === "same" ? "the same" : decisionIn(pair.rerun)}</td>
              </tr>
            ))}
            <tr>
              <th scope="row">Ended</th>
              <td>{turn?.recorded_end || "–"}</td>
              <td>{turn?.rerun_end || "–"}</td>
            </tr>
          </tbody>
        </table>
      </div>
      {!isRunning && (before || after) && (
        <>
          <div className="again-answers">
            <article tabIndex={0} aria-label="Recorded answer"><Markdown text={before} /></article>
            <article tabIndex={0} aria-label="Answer of the re-run"><Markdown text={after} /></article>
          </div>
          <DiffView before={before} after={after} />
        </>
      )}
    </>
  );
}

const FIGURES: [string, (effort: Schemas["Effort"]) => string][] = [
  ["Requests", (effort) => count(effort.requests ?? 0)],
  ["Calls of tools", (effort) => count(effort.calls ?? 0)],
  ["Tokens sent", ({ usage }) => count((usage?.input_tokens ?? 0) + (usage?.cache_write_tokens ?? 0) + (usage?.cache_read_tokens ?? 0))],
  ["From cache", ({ usage }) => count(usage?.cache_read_tokens ?? 0)],
  ["Reply", ({ usage }) => count(usage?.output_tokens ?? 0)],
  ["Cost", ({ usage }) => (usage?.cost_nano_usd ? money(usage.cost_nano_usd) : "not priced")],
  ["Time", (effort) => duration(effort.model_ms ?? 0)],
];

function told({ comparison, status }: Compared): string {
  const turn = comparison.turns[0];
  if (status.state === "running") return `Running: round ${Math.max(1, status.round)}…`;
  if (status.state === "interrupted") return "The server stopped in the middle of it; what is there is being closed…";
  if (status.state === "waiting") return "The re-run waits for a person; open it to decide.";
  if (turn?.rerun_end === "cancelled" && turn.recorded_end !== "cancelled") return `${sentence(turn.rerun_end_text)} Run it again, or open it to go on from there.`;
  return comparison.is_same ? "The model decided the same in every round." : "It came out otherwise.";
}

function answerIn(rounds: Pair[], side: Side): string {
  return rounds.map((pair) => pair[side]?.answer ?? "").filter(Boolean).at(-1) ?? "";
}

function decisionIn(made: Pair["recorded"]): string {
  if (!made) return "–";
  const calls = (made.calls ?? []).map((call) => `${call.tool_id} ${shortened(call.params)}${call.failed ? " (failed)" : ""}`);
  return [...calls, ...(made.answer ? ["the answer"] : [])].join("\n") || "–";
}

function shortened(text: string): string {
  return text.length > PARAMS_CHARS ? `${text.slice(0, PARAMS_CHARS)}…` : text;
}
