/** The open conversation: title, messages and composer. */
import { Icon } from "../app/Icon";
import { type Panel, showPanel, useAppStore } from "../app/appStore";
import { conversationTitle } from "../timeline/fold";
import { Announcer } from "./Announcer";
import { BundleName } from "./BundleChoice";
import { Composer } from "./Composer";
import { MessageList } from "./MessageList";
import { PinnedList } from "./PinnedList";
import { Welcome } from "./Welcome";

export function Conversation() {
  const open = useAppStore((state) => state.open);
  const panel = useAppStore((state) => state.panel);
  const waiting = useAppStore((state) => state.approvals.length);
  const title = (open && conversationTitle(open.timeline)) || (open ? "Conversation" : "New conversation");
  return (
    <main className="conversation" aria-label="Conversation">
      <header className="bar">
        <button type="button" className="icon narrow-only" aria-label={waiting ? `Conversations, ${waiting} waiting for approval` : "Conversations"} onClick={() => useAppStore.setState({ sidebar: true })}>
          <Icon name="menu" />
          {waiting > 0 && <span className="badge">{waiting}</span>}
        </button>
        <h1 title={title} dir="auto">{title}</h1>
        <BundleName name={open?.bundle ?? ""} />
        {open && (
          <div className="bar-buttons">
            <Connection />
            <PanelButton name="sources" icon="book" label="Sources" current={panel} count={open.timeline.sources.size} />
            <PanelButton name="canvas" icon="file" label="Files" current={panel} count={[...open.timeline.artifacts.values()].filter((file) => file.external).length} />
            <PanelButton name="inspector" icon="loupe" label="Inspector" current={panel} count={0} />
          </div>
        )}
      </header>
      {open ? <MessageList key={open.id} /> : <Welcome />}
      <PinnedList />
      <Announcer key={`announcer ${open?.id ?? ""}`} />
      {open && !open.mayWrite ? <ReadOnly owner={open.owner} /> : <Composer key={`composer ${open?.id ?? ""}`} />}
    </main>
  );
}

/** Stands in the place of the composer in a conversation of another user. */
function ReadOnly({ owner }: { owner: string }) {
  return (
    <div className="composer-place read-only" role="note">
      You can read this conversation{owner ? ` of ${owner}` : ""} and decide its approvals. Only its owner can send messages.
    </div>
  );
}

interface ButtonProps {
  name: Exclude<Panel, "">;
  icon: "book" | "file" | "loupe";
  label: string;
  current: Panel;
  count: number;
}

function PanelButton({ name, icon, label, current, count }: ButtonProps) {
  const on = current === name;
  return (
    <button type="button" className="quiet" aria-label={label} title={label} aria-pressed={on} onClick={() => showPanel(on ? "" : name)}>
      <Icon name={icon} />
      <span className="wide-only">{label}</span>
      {count > 0 && <span className="count">{count}</span>}
    </button>
  );
}

function Connection() {
  const connection = useAppStore((state) => state.open?.connection);
  if (connection !== "lost") return null;
  return (
    <span className="lost" role="status">
      Connection lost. Reconnecting…
    </span>
  );
}
