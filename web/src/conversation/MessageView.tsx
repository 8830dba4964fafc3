/** What a person said, and whether the agent has seen it. */
import { bytes, clock } from "../app/format";
import { Icon } from "../app/Icon";
import { show } from "../app/store";
import { fileKey } from "../timeline/fold";
import type { Message, Turn } from "../timeline/model";
import { fork } from "./fork";

export function MessageView({ message, turn }: { message: Message; turn: Turn }) {
  const isLate = message.how !== "prompt";
  const before = isLate ? message.seq - 1 : turn.startSeq - 1;
  return (
    <div className={`message message-${message.how}`}>
      {message.label && <div className="message-label">{message.label}</div>}
      {message.text && <div className="bubble">{message.text}</div>}
      {message.attachments.length > 0 && (
        <ul className="attached" aria-label="Attachments">
          {message.attachments.map((one) => (
            <li key={one.path}>
              <button type="button" className="file-chip" onClick={() => show("canvas", one.path || fileKey(one.path))}>
                <Icon name="file" /> <span className="file-name">{one.name}</span> <span className="dim">{bytes(one.bytes)}</span>
              </button>
            </li>
          ))}
        </ul>
      )}
      {isLate && (
        <div className="seen">{seen(message, !turn.reason)}</div>
      )}
      {message.text && message.how !== "event" && (
        <button type="button" className="quiet small fork-before" title="A copy that ends before this message, which stands in its composer" onClick={() => void fork({ seq: before }, message.text)}>
          <Icon name="fork" /> Fork before this
        </button>
      )}
    </div>
  );
}

function seen({ seenTs, how, text }: Message, running: boolean): string {
  if (seenTs) return `Seen by the agent at ${clock(seenTs)}`;
  if (running) return "Not seen yet";
  return how === "steer" && !text ? "Ended the turn" : "The turn ended before the agent saw this";
}
