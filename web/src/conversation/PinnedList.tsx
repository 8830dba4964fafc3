/** The pinned blocks of the open conversation, each with a button that ends its pin. */
import { Icon } from "../app/Icon";
import { useAppStore } from "../app/appStore";
import { setPinned } from "./PinButton";

/** Longer texts are cut, because the list only names the blocks. */
const MAX_CHARS = 80;

export function PinnedList() {
  const open = useAppStore((state) => state.open);
  if (!open || open.timeline.pins.size === 0) return null;
  return (
    <details className="pinned-list">
      <summary><Icon name="pin" /> Pinned ({open.timeline.pins.size})</summary>
      <ul aria-label="Pinned blocks">
        {[...open.timeline.pins].map(([path, text]) => (
          <li key={path}>
            <span dir="auto" title={path}>{shorten(text || path)}</span>
            {open.mayWrite && (
              <button type="button" className="icon" aria-label={`Unpin ${shorten(text || path)}`} onClick={() => void setPinned(open.id, path, false)}>
                <Icon name="close" />
              </button>
            )}
          </li>
        ))}
      </ul>
    </details>
  );
}

function shorten(text: string): string {
  const words = text.trim().replace(/\s+/g, " ");
  return words.length > MAX_CHARS ? `${words.slice(0, MAX_CHARS)}…` : words;
}
