/** What a person said, and whether the agent has seen it. */
import { bytes, clock } from "../app/format";
import { Icon } from "../app/Icon";
import { show } from "../app/store";
import { fileKey } from "../timeline/fold";
import type { Message } from "../timeline/model";

export function MessageView({ message, running }: { message: Message; running: boolean }) {
  const isLate = message.how !== "prompt";
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
        <div className="seen">{message.seenTs ? `Seen by the agent at ${clock(message.seenTs)}` : running ? "Not seen yet" : "Ended the turn"}</div>
      )}
    </div>
  );
}
