/** Follow-up messages that the agent suggests. */
import { sendAndFocus } from "./sendAndFocus";

export function Followups({ texts }: { texts: string[] }) {
  return (
    <ul className="followups" aria-label="Suggested follow-ups">
      {texts.map((text) => (
        <li key={text}>
          <button type="button" onClick={() => sendAndFocus(text)}>{text}</button>
        </li>
      ))}
    </ul>
  );
}
