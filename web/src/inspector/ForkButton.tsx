/** Forks the conversation after an entry, and goes there. */
import { useState } from "react";
import { address, post, type Schemas } from "../api/client";
import { Icon } from "../app/Icon";
import { go } from "../app/route";
import { listConversations, tellUser, usePage, wordsOf } from "../app/store";

export function ForkButton({ seq, label = "Fork here" }: { seq: number; label?: string }) {
  const id = usePage((state) => state.open?.id ?? "");
  const [busy, setBusy] = useState(false);
  const fork = async () => {
    setBusy(true);
    try {
      const forked = await post<Schemas["Forked"]>(address("conversations", id, "fork"), { seq });
      await listConversations();
      go(forked.conversation);
      tellUser(`This is a fork: all up to block ${seq}. The conversation that it comes from stays as it is.`);
    } catch (error) {
      tellUser(wordsOf(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <button type="button" className="quiet small" disabled={busy} onClick={() => void fork()}>
      <Icon name="fork" /> {label}
    </button>
  );
}
