/** Sends what a button offers. */
import { say, tellUser, wordsOf } from "../app/store";
import { focusComposer } from "./draft";

export function send(text: string): void {
  say(text, "message").catch((error: unknown) => tellUser(wordsOf(error)));
  // The button goes away with the new turn.
  focusComposer();
}
