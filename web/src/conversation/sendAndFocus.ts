/** Sends the text of a button as a message. */
import { errorMessage, showToast } from "../app/appStore";
import { sendMessage } from "../app/liveConversation";
import { focusComposer } from "./draft";

export function sendAndFocus(text: string): void {
  sendMessage(text, "message").catch((error: unknown) => showToast(errorMessage(error)));
  // The button disappears with the new turn, so the focus needs a new place.
  focusComposer();
}
