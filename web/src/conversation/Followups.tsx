/** What the agent suggests to ask next. */
import { say, tellUser, wordsOf } from "../app/store";

export function Followups({ texts }: { texts: string[] }) {
  return (
    <ul className="followups" aria-label="Suggested follow-ups">
      {texts.map((text) => (
        <li key={text}>
          <button type="button" onClick={() => void say(text, "message").catch((error: unknown) => tellUser(wordsOf(error)))}>{text}</button>
        </li>
      ))}
    </ul>
  );
}
