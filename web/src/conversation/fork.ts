/** Forks the open conversation and goes there. */
import { address, post, type Schemas } from "../api/client";
import { go } from "../app/route";
import { listConversations, tellUser, usePage, wordsOf } from "../app/store";
import { draftKey } from "./draft";

/** Up to where is the end of a turn or an entry; the draft is what the composer has there. */
export async function fork(upTo: { turn: string } | { seq: number }, draft = ""): Promise<void> {
  const conversation = usePage.getState().open?.id ?? "";
  try {
    const { conversation: made } = await post<Schemas["Forked"]>(address("conversations", conversation, "fork"), upTo);
    await listConversations();
    if (draft) window.sessionStorage.setItem(draftKey(made), draft);
    go(made);
    tellUser("This is a copy that goes on by itself. The conversation it came from is unchanged.");
  } catch (error) {
    tellUser(wordsOf(error));
  }
}
