/** A message of the user, with its attachments and whether the agent has seen it. */
import { bytes, clock } from "../app/format";
import { Icon } from "../app/Icon";
import { showPanel, useAppStore } from "../app/appStore";
import { fileKey } from "../timeline/fold";
import type { Message, Turn } from "../timeline/model";
import { ExternalEvent } from "./ExternalEvent";
import { fork } from "./fork";
import { PinButton } from "./PinButton";

export function MessageView({ message, turn }: { message: Message; turn: Turn }) {
  const mayWrite = useAppStore((state) => state.open?.mayWrite ?? true);
  const isDuringTurn = message.type !== "prompt";
  const before = isDuringTurn ? message.seq - 1 : turn.startSeq - 1;
  return (
    <div className={`message message-${message.type}`}>
      {message.label && <div className="message-label">{message.label}</div>}
      {message.event ? <ExternalEvent message={message} /> : message.text && <div className="bubble" dir="auto">{message.text}</div>}
      {message.attachments.length > 0 && (
        <ul className="attached" aria-label="Attachments">
          {message.attachments.map((one) => (
            <li key={one.path}>
              <button type="button" className="file-chip" onClick={() => showPanel("canvas", one.path || fileKey(one.path))}>
                <Icon name="file" /> <span className="file-name">{one.name}</span> <span className="dim">{bytes(one.bytes)}</span>
              </button>
            </li>
          ))}
        </ul>
      )}
      {isDuringTurn && (
        <div className="seen">{seenText(message, !turn.reason)}</div>
      )}
      {message.text && !message.event && mayWrite && (
        <button type="button" className="quiet small fork-before" title="Copy the conversation up to this message and edit the message in the copy" onClick={() => void fork({ seq: before }, message.text)}>
          <Icon name="fork" /> Fork before this
        </button>
      )}
      {message.text && <PinButton path={message.path} />}
    </div>
  );
}

function seenText({ seenTs, type, text }: Message, running: boolean): string {
  if (seenTs) return `Seen by the agent at ${clock(seenTs)}`;
  if (running) return "Not seen yet";
  return type === "steer" && !text ? "Stopped the turn" : "The turn ended before the agent saw this";
}
