/** Re-runs a turn from a round with a chosen model and compares the result with the recorded one. */
import { useEffect, useState } from "react";
import { call, type Effort, type ForkComparison, ProblemError, type RoundPair } from "../api/client";
import { pause } from "../api/stream";
import { count, duration, money } from "../app/format";
import { Icon } from "../app/Icon";
import { conversationHash } from "../app/route";
import { errorMessage, listConversations, showToast, toSentence, useAppStore } from "../app/appStore";
import { DiffView } from "../canvas/DiffView";
import { Markdown } from "../markdown/Markdown";
import type { Round } from "./rounds";

type Side = "recorded" | "rerun";

const SIDES: Side[] = ["recorded", "rerun"];

/** The interval between polls of a re-run. It grows up to the maximum while the server does not answer. */
const POLL_MS = 700;
const MAX_WAIT_MS = 10000;

/** Longer parameters are shortened in the table. The conversations have all of them. */
const PARAMS_CHARS = 160;

/** The newest re-run of each round since the page was opened. */
const forks = new Map<string, string>();

export function RerunPanel({ round }: { round: Round }) {
  const id = useAppStore((state) => state.open?.id ?? "");
  const models = useAppStore((state) => state.me?.models) ?? [];
  const key = `${id} ${round.seq}`;
  const [model, setModel] = useState(models.find((one) => one !== round.model) ?? models[0] ?? "");
  const [fork, setFork] = useState(forks.get(key) ?? "");
  const [problem, setProblem] = useState("");
  const { found, lost } = useComparison(fork, setProblem);
  const [isStarting, setIsStarting] = useState(false);
  const isBusy = isStarting || (fork !== "" && !problem && (!found || isUnderWay(found)));
  const run = async () => {
    setIsStarting(true);
    setProblem("");
    try {
      const started = await call("post_rerun", { conversation_id: id, body: { seq: round.seq - 1, model, turns: 1 } });
      forks.set(key, started.conversation_id);
      setFork(started.conversation_id);
    } catch (error) {
      setProblem(errorMessage(error));
    } finally {
      setIsStarting(false);
    }
  };
  const stop = async () => {
    try {
      await call("delete_rerun", { conversation_id: fork });
    } catch (error) {
      // The re-run may have ended in the meantime.
      if (!(error instanceof ProblemError && error.code === "turn_not_running")) showToast(errorMessage(error));
    }
  };
  return (
    <section className="rerun" aria-label="Run again">
      <div className="row">
        <label htmlFor="rerun-model">Run again with</label>
        <select id="rerun-model" value={model} disabled={isBusy} onChange={(event) => setModel(event.currentTarget.value)}>
          {models.map((one) => <option key={one}>{one}</option>)}
        </select>
        <button type="button" className="quiet small" disabled={isBusy || !model} onClick={() => void run()}><Icon name="fork" /> Run again from this round</button>
        {found?.status.state === "running" && <button type="button" className="quiet small" onClick={() => void stop()}>Stop</button>}
      </div>
      <p className="dim">The re-run happens on a fork, so this conversation stays unchanged. Tool calls return their recorded results. Calls without a recorded result are not made.</p>
      {problem && <div className="trouble" role="note">{problem}</div>}
      {(lost || found) && <p role="status">{lost || (found && statusText(found))}</p>}
      {found && <Comparison found={found} />}
    </section>
  );
}

interface PollState {
  found: ForkComparison | null;
  /** Why the current state is unknown; empty if it is known. */
  lost: string;
}

function useComparison(fork: string, fail: (message: string) => void): PollState {
  const [polled, setPolled] = useState<PollState>({ found: null, lost: "" });
  useEffect(() => {
    if (!fork) return undefined;
    const closing = new AbortController();
    void poll(fork, setPolled, fail, closing.signal);
    return () => closing.abort();
  }, [fork]);
  return polled.found && polled.found.conversation_id !== fork ? { found: null, lost: "" } : polled;
}

/** Poll a re-run until it has ended. Without an answer the interval grows; when the network is back, poll at once. */
async function poll(fork: string, update: (change: (before: PollState) => PollState) => void, fail: (message: string) => void, closed: AbortSignal): Promise<void> {
  let wait = POLL_MS;
  while (!closed.aborted) {
    try {
      const found = await call("get_comparison", { conversation_id: fork, query: { turns: 1 } });
      if (closed.aborted) return;
      update(() => ({ found, lost: "" }));
      if (!isUnderWay(found)) {
        // The fork gets its title when its first turn ends.
        await listConversations();
        return;
      }
      wait = found.status.state === "running" ? POLL_MS : longer(wait);
    } catch (error) {
      if (closed.aborted) return;
      if (!isTemporary(error)) {
        fail(errorMessage(error));
        return;
      }
      update((before) => ({ ...before, lost: connectionMessage(error) }));
      wait = longer(wait);
    }
    await pause(wait, closed);
  }
}

const longer = (wait: number) => Math.min(wait * 2, MAX_WAIT_MS);

/** Whether the error is temporary, so that another poll can succeed. */
function isTemporary(error: unknown): error is ProblemError {
  return error instanceof ProblemError && (error.status === 0 || [408, 429].includes(error.status) || error.status >= 500);
}

function connectionMessage(error: ProblemError): string {
  if (error.status === 0) return "The connection is lost. The re-run does not depend on this page. Reconnecting…";
  return `${errorMessage(error)} The re-run does not depend on this page. Retrying…`;
}

/** Whether the re-run can still change: after a crash, the restarted server closes its turn. */
function isUnderWay({ status }: ForkComparison): boolean {
  return status.state === "running" || status.state === "interrupted";
}

function Comparison({ found }: { found: ForkComparison }) {
  const { comparison } = found;
  const turn = comparison.turns[0];
  const rounds = turn?.rounds ?? [];
  const [before, after] = SIDES.map((side) => answerIn(rounds, side)) as [string, string];
  const isRunning = isUnderWay(found);
  return (
    <>
      <div className="rerun-scroll" tabIndex={0} role="region" aria-label="Comparison">
        <table className="rerun-table">
          <thead>
            <tr>
              <th scope="col"><span className="sr">Metric</span></th>
              <th scope="col"><a href={conversationHash(comparison.forked_from.conversation_id)}>Recorded</a><br /><span className="dim">{comparison.recorded_models.join(", ")}</span></th>
              <th scope="col"><a href={conversationHash(found.conversation_id)}>Re-run</a><br /><span className="dim">{comparison.rerun_models.join(", ")}</span></th>
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
              <tr key={pair.round} className={`rerun-${pair.verdict}`}>
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
          <div className="rerun-answers">
            <article tabIndex={0} aria-label="Recorded answer"><Markdown text={before} /></article>
            <article tabIndex={0} aria-label="Re-run answer"><Markdown text={after} /></article>
          </div>
          <DiffView before={before} after={after} />
        </>
      )}
    </>
  );
}

const FIGURES: [string, (effort: Effort) => string][] = [
  ["Requests", (effort) => count(effort.requests)],
  ["Tool calls", (effort) => count(effort.calls)],
  ["Tokens sent", ({ usage }) => count((usage.input_tokens ?? 0) + (usage.cache_write_tokens ?? 0) + (usage.cache_read_tokens ?? 0))],
  ["From cache", ({ usage }) => count(usage.cache_read_tokens ?? 0)],
  ["Reply", ({ usage }) => count(usage.output_tokens ?? 0)],
  ["Cost", ({ usage }) => (usage.cost_nano_usd ? money(usage.cost_nano_usd) : "not priced")],
  ["Time", (effort) => duration(effort.model_ms)],
];

function statusText({ comparison, status }: ForkComparison): string {
  const turn = comparison.turns[0];
  if (status.state === "running") return `Running: round ${Math.max(1, status.round ?? 1)}…`;
  if (status.state === "interrupted") return "The server stopped during the re-run. The turn is being closed…";
  if (status.state === "waiting") return "The re-run is waiting for an approval. Open it to decide.";
  if (turn?.rerun_end === "cancelled" && turn.recorded_end !== "cancelled") return `${toSentence(turn.rerun_end_text)} Run it again, or open it to continue from there.`;
  return comparison.is_same ? "The model made the same decisions in every round." : "The results differ.";
}

function answerIn(rounds: RoundPair[], side: Side): string {
  return rounds.map((pair) => pair[side]?.answer ?? "").filter(Boolean).at(-1) ?? "";
}

function decisionIn(decision: RoundPair["recorded"]): string {
  if (!decision) return "–";
  const calls = (decision.calls ?? []).map((call) => `${call.tool_id} ${shortened(call.params)}${call.failed ? " (failed)" : ""}`);
  return [...calls, ...(decision.answer ? ["the answer"] : [])].join("\n") || "–";
}

function shortened(text: string): string {
  return text.length > PARAMS_CHARS ? `${text.slice(0, PARAMS_CHARS)}…` : text;
}
