/** What the agent suggests to ask next. */
import { send } from "./send";

export function Followups({ texts }: { texts: string[] }) {
  return (
    <ul className="followups" aria-label="Suggested follow-ups">
      {texts.map((text) => (
        <li key={text}>
          <button type="button" onClick={() => send(text)}>{text}</button>
        </li>
      ))}
    </ul>
  );
}
