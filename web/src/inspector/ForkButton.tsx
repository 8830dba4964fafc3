/** A button that forks the conversation after an entry and opens the fork. */
import { useState } from "react";
import { call } from "../api/client";
import { Icon } from "../app/Icon";
import { navigate } from "../app/route";
import { errorMessage, listConversations, showToast, useAppStore } from "../app/appStore";

export function ForkButton({ seq, label = "Fork here" }: { seq: number; label?: string }) {
  const id = useAppStore((state) => state.open?.id ?? "");
  const [busy, setBusy] = useState(false);
  const fork = async () => {
    setBusy(true);
    try {
      const forked = await call("post_fork", { conversation_id: id, body: { seq } });
      await listConversations();
      navigate(forked.conversation);
      showToast(`This is a fork up to block ${seq}. The original conversation is unchanged.`);
    } catch (error) {
      showToast(errorMessage(error));
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
