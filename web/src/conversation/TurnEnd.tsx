/** The end of a turn: its usage, its buttons and, if it ended without an answer, the reason and the fix. */
import { between, count, money } from "../app/format";
import { toSentence } from "../app/appStore";
import { table } from "../timeline/blocks";
import type { Answer, Message, Turn } from "../timeline/model";
import { Followups } from "./Followups";
import { sendAndFocus } from "./sendAndFocus";
import { AnswerButtons, FeedbackButtons, ForkButton } from "./TurnButtons";

interface Reason {
  title: string;
  next: string;
  /** Whether sending the same message again can succeed. */
  retryable?: boolean;
}

const REASONS = table<Reason>({
  stopped: { title: "Stopped by the user.", next: "" },
  cancelled: { title: "Cancelled.", next: "" },
  exited: { title: "The agent ended the turn without an answer.", next: "Ask again, or add the missing information." },
  max_iterations: { title: "The turn reached its round limit.", next: "Send “continue” to resume it." },
  budget_exhausted: { title: "The budget is used up.", next: "Ask the server's administrator to raise it." },
  no_progress: { title: "The agent repeated a call without progress.", next: "Try again with more detail.", retryable: true },
  protocol_failure: { title: "The model replied in an invalid format.", next: "Try again, or use another model.", retryable: true },
  provider_error: { title: "The model call failed.", next: "Send the message again in a moment. If it fails again, check the server's log.", retryable: true },
  refused: { title: "The model declined to answer.", next: "Rephrase your message." },
  runtime_error: { title: "timeloom failed unexpectedly.", next: "Send the message again. The server's log has the details.", retryable: true },
});

/** Failures of a model call by error code (docs/how-to/choose-a-model.md), with the fix. */
const FAILURES = table<Reason>({
  overloaded: { title: "The model provider is overloaded.", next: "Send the message again in a moment.", retryable: true },
  rate_limited: { title: "The model provider's rate limit is reached.", next: "Wait a moment, then send the message again.", retryable: true },
  unreachable: { title: "The model provider is unreachable.", next: "Send the message again in a moment. If it fails again, check the provider's address and the server's network.", retryable: true },
  timeout: { title: "The model did not answer in time.", next: "Send the message again.", retryable: true },
  cut: { title: "The model's reply was cut off.", next: "Send the message again. The line above contains the partial reply.", retryable: true },
  context_too_long: { title: "The conversation is too long for the model.", next: "The same message will fail again. Fork before a long message or file, start a new conversation, or use a model with a larger context window." },
  refused: { title: "The model provider declined to answer.", next: "Fork before your message and rephrase it." },
  unauthorized: { title: "The model provider rejected this server's API key.", next: "Ask the server's administrator to set a valid key with available credit." },
  invalid: { title: "The model provider rejected the request as invalid.", next: "The same message will fail again. Use another model, or report the error to the server's administrator." },
});

export function TurnEnd({ turn, isLast }: { turn: Turn; isLast: boolean }) {
  const answer = turn.items.findLast((item): item is Answer => item.kind === "answer");
  const reason = (turn.reason === "provider_error" && FAILURES[turn.failure]) || REASONS[turn.reason];
  const last = turn.items.findLast((item): item is Message => item.kind === "message" && item.type !== "event" && item.text !== "");
  const tokens = turn.usage.input_tokens + turn.usage.cache_read_tokens + turn.usage.cache_write_tokens + turn.usage.output_tokens;
  return (
    <footer className="turn-end">
      {reason && (
        <div className={turn.reason === "stopped" || turn.reason === "cancelled" ? "ended" : "trouble"} role="note">
          <strong>{reason.title}</strong> {reason.next} {turn.endText && <span className="dim">{toSentence(turn.endText)}</span>}
          {isLast && reason.retryable && last && <button type="button" className="retry" onClick={() => sendAndFocus(last.text)}>Try again</button>}
        </div>
      )}
      <div className="turn-foot">
        {answer ? answer === turn.items.at(-1) && <AnswerButtons answer={answer} turn={turn} /> : <FeedbackButtons turn={turn} />}
        <ForkButton turn={turn} />
        <span className="dim figures">
          {between(turn.startedTs, turn.endedTs)} · {turn.rounds} {turn.rounds === 1 ? "round" : "rounds"} · {count(tokens)} tokens
          {turn.usage.cost_nano_usd > 0 && ` · ${money(turn.usage.cost_nano_usd)}`}
        </span>
      </div>
      {isLast && answer && answer.followups.length > 0 && <Followups texts={answer.followups} />}
    </footer>
  );
}
