/** The end of a turn: what it took, what can be done with it, and why it ended where that is not plain. */
import { between, count, money } from "../app/format";
import { sentence } from "../app/store";
import { CopyButton } from "../markdown/CodeBlock";
import { table } from "../timeline/blocks";
import type { Answer, Turn } from "../timeline/model";
import { Followups } from "./Followups";
import { TurnButtons } from "./TurnButtons";

const REASONS = table<{ title: string; next: string }>({
  stopped: { title: "Stopped at your word.", next: "" },
  cancelled: { title: "Cancelled.", next: "" },
  exited: { title: "The agent ended the turn without an answer.", next: "Ask again, or say what is missing." },
  max_iterations: { title: "The turn reached its limit of rounds.", next: "Say “go on” to continue from here." },
  budget_exhausted: { title: "The budget is used up.", next: "Whoever runs this server can raise it." },
  protocol_failure: { title: "The model did not answer in the expected form.", next: "Try again, or use another model." },
  provider_error: { title: "The model could not be reached, or failed.", next: "Send the message again in a moment; if it stays so, look at the server's log." },
  refused: { title: "The model declined to answer.", next: "Put it differently." },
  runtime_error: { title: "Something went wrong inside timeloom.", next: "Send the message again; the server's log says more." },
});

export function TurnEnd({ turn, isLast }: { turn: Turn; isLast: boolean }) {
  const answer = turn.items.findLast((item): item is Answer => item.kind === "answer");
  const reason = REASONS[turn.reason];
  const tokens = turn.usage.input_tokens + turn.usage.cache_read_tokens + turn.usage.cache_write_tokens + turn.usage.output_tokens;
  return (
    <footer className="turn-end">
      {reason && (
        <div className={turn.reason === "stopped" || turn.reason === "cancelled" ? "ended" : "trouble"} role="note">
          <strong>{reason.title}</strong> {reason.next} {turn.endText && <span className="dim">{sentence(turn.endText)}</span>}
        </div>
      )}
      <div className="turn-foot">
        {answer && <CopyButton text={answer.text} />}
        <TurnButtons turn={turn} />
        <span className="dim figures">
          {between(turn.startedTs, turn.endedTs)} · {turn.rounds} {turn.rounds === 1 ? "round" : "rounds"} · {count(tokens)} tokens
          {turn.usage.cost_nano_usd > 0 && ` · ${money(turn.usage.cost_nano_usd)}`}
        </span>
      </div>
      {isLast && answer && answer.followups.length > 0 && <Followups texts={answer.followups} />}
    </footer>
  );
}
