/** Pins a block, so that it stays in the model's sight when older parts are summarized, or ends its pin. */
import { call } from "../api/client";
import { Icon } from "../app/Icon";
import { errorMessage, showToast, useAppStore } from "../app/appStore";

export function PinButton({ path }: { path: string }) {
  const mayWrite = useAppStore((state) => state.open?.mayWrite ?? true);
  const conversation = useAppStore((state) => state.open?.id ?? "");
  const isPinned = useAppStore((state) => state.open?.timeline.pins.has(path) ?? false);
  if (!mayWrite || !path) return null;
  return (
    <button
      type="button"
      className="icon pin"
      aria-label="Pin"
      aria-pressed={isPinned}
      title={isPinned ? "Pinned: stays in the model's sight. Press to unpin." : "Keep in the model's sight when older parts are summarized"}
      onClick={() => void setPinned(conversation, path, !isPinned)}
    >
      <Icon name="pin" />
    </button>
  );
}

export async function setPinned(conversation: string, path: string, pinned: boolean): Promise<void> {
  try {
    await call("post_pin", { conversation_id: conversation, body: { path, pinned } });
  } catch (error) {
    showToast(errorMessage(error));
  }
}
