/** The end of a turn: what it took, what can be done with it, and why it ended where that is not plain. */
import { between, count, money } from "../app/format";
import { sentence } from "../app/store";
import { CopyButton } from "../markdown/CodeBlock";
import { table } from "../timeline/blocks";
import type { Answer, Message, Turn } from "../timeline/model";
import { Followups } from "./Followups";
import { send } from "./send";
import { TurnButtons } from "./TurnButtons";

interface Reason {
  title: string;
  next: string;
  /** Whether the same message may pass when it is sent again. */
  again?: boolean;
}

const REASONS = table<Reason>({
  stopped: { title: "Stopped at your word.", next: "" },
  cancelled: { title: "Cancelled.", next: "" },
  exited: { title: "The agent ended the turn without an answer.", next: "Ask again, or say what is missing." },
  max_iterations: { title: "The turn reached its limit of rounds.", next: "Say “go on” to continue from here." },
  budget_exhausted: { title: "The budget is used up.", next: "Whoever runs this server can raise it." },
  protocol_failure: { title: "The model did not answer in the expected form.", next: "Try again, or use another model.", again: true },
  provider_error: { title: "The model could not be reached, or failed.", next: "Send the message again in a moment; if it stays so, look at the server's log.", again: true },
  refused: { title: "The model declined to answer.", next: "Put it differently." },
  runtime_error: { title: "Something went wrong inside timeloom.", next: "Send the message again; the server's log says more.", again: true },
});

/** Why a model did not answer (docs/models.md), and what helps. */
const FAILURES = table<Reason>({
  overloaded: { title: "The model's service is overloaded.", next: "Send the message again in a moment.", again: true },
  rate_limited: { title: "The model's service takes no more requests for now.", next: "Wait a little, then send the message again.", again: true },
  unreachable: { title: "The model's service cannot be reached.", next: "Send the message again in a moment; if it stays so, its address or the network of this server is wrong.", again: true },
  timeout: { title: "The model did not answer in time.", next: "Send the message again.", again: true },
  cut: { title: "The model's answer broke off.", next: "Send the message again; what had come of it is in the line above.", again: true },
  context_too_long: { title: "The conversation is longer than the model takes.", next: "The same message will fail again: fork before a long message or file, begin a new conversation, or use a model that takes more." },
  refused: { title: "The model's service declined to answer.", next: "Put it differently: fork before your message and change it." },
  unauthorized: { title: "The model's service does not accept the key of this server.", next: "Whoever runs this server has to set one that is valid and has credit." },
  invalid: { title: "The model's service did not understand the request.", next: "The same message will fail again: use another model, or tell whoever runs this server what it said." },
});

export function TurnEnd({ turn, isLast }: { turn: Turn; isLast: boolean }) {
  const answer = turn.items.findLast((item): item is Answer => item.kind === "answer");
  const reason = (turn.reason === "provider_error" && FAILURES[turn.failure]) || REASONS[turn.reason];
  const last = turn.items.findLast((item): item is Message => item.kind === "message" && item.how !== "event" && item.text !== "");
  const tokens = turn.usage.input_tokens + turn.usage.cache_read_tokens + turn.usage.cache_write_tokens + turn.usage.output_tokens;
  return (
    <footer className="turn-end">
      {reason && (
        <div className={turn.reason === "stopped" || turn.reason === "cancelled" ? "ended" : "trouble"} role="note">
          <strong>{reason.title}</strong> {reason.next} {turn.endText && <span className="dim">{sentence(turn.endText)}</span>}
          {isLast && reason.again && last && <button type="button" className="again" onClick={() => send(last.text)}>Try again</button>}
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
