/** Forks the open conversation. */
import { call } from "../api/client";
import { navigate } from "../app/route";
import { errorMessage, listConversations, showToast, useAppStore } from "../app/appStore";
import { draftKey } from "./draft";

/** Fork up to a turn or an entry and open the fork, with `draft` as the text of its composer. */
export async function fork(upTo: { turn: string } | { seq: number }, draft = ""): Promise<void> {
  const conversation = useAppStore.getState().open?.id ?? "";
  try {
    const { conversation: forkId } = await call("post_fork", { conversation_id: conversation, body: upTo });
    await listConversations();
    if (draft) window.sessionStorage.setItem(draftKey(forkId), draft);
    navigate(forkId);
    showToast("This is a fork. The original conversation is unchanged.");
  } catch (error) {
    showToast(errorMessage(error));
  }
}
