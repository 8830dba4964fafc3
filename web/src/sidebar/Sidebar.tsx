/** Conversations, newest first, by day; or those in which words were said. */
import { Fragment, useEffect, useState } from "react";
import { apiPath, get, type Schemas, withQuery } from "../api/client";
import { day } from "../app/format";
import { Icon } from "../app/Icon";
import { navigate } from "../app/route";
import { listConversations, showToast, useAppStore, errorMessage } from "../app/appStore";
import { ConversationMenu } from "./ConversationMenu";
import { ThemeButton } from "./ThemeButton";

export function Sidebar() {
  const shown = useAppStore((state) => state.sidebar);
  const me = useAppStore((state) => state.me);
  const [words, setWords] = useState("");
  const found = useSearch(words.trim());
  const close = () => useAppStore.setState({ sidebar: false });
  return (
    <>
      {shown && <div className="shade" onClick={close} />}
      <nav className={`sidebar${shown ? " shown" : ""}`} aria-label="Conversations">
        <header className="bar">
          <img src="./icon.svg" alt="" width="24" height="24" />
          <span className="brand">timeloom</span>
          <button type="button" className="icon narrow-only" aria-label="Close the list" onClick={close}><Icon name="close" /></button>
        </header>
        <button type="button" className="new" onClick={() => (navigate(""), close())}><Icon name="plus" /> New conversation</button>
        <div className="find">
          <Icon name="search" />
          <label className="sr" htmlFor="find">Search conversations</label>
          <input id="find" type="search" placeholder="Search" value={words} onChange={(event) => setWords(event.target.value)} />
        </div>
        {found ? <FoundList found={found} close={close} /> : <DayList close={close} />}
        <footer>
          <span className="who" title={me ? `${me.tenant}/${me.project}` : ""}>{me?.user}</span>
          <ThemeButton />
        </footer>
      </nav>
    </>
  );
}

function DayList({ close }: { close: () => void }) {
  const conversations = useAppStore((state) => state.conversations);
  const more = useAppStore((state) => state.cursor);
  return (
    <ul className="list">
      {conversations.map((one, at) => {
        const heading = day(one.last_ts);
        const before = conversations[at - 1];
        return (
          <Fragment key={one.id}>
            {(!before || day(before.last_ts) !== heading) && <li className="list-day">{heading}</li>}
            <Entry id={one.id} title={one.title} parent={one.parent} close={close} />
          </Fragment>
        );
      })}
      {conversations.length === 0 && <li className="list-empty">Nothing here yet.</li>}
      {more && <li><button type="button" className="quiet" onClick={() => void listConversations(true)}>Show more</button></li>}
    </ul>
  );
}

function Entry({ id, title, parent, close }: { id: string; title: string; parent: string | null; close: () => void }) {
  const current = useAppStore((state) => state.open?.id === id);
  const origin = useAppStore((state) => state.conversations.find((one) => one.id === parent)?.title);
  const fork = parent ? `fork of ${origin || "another conversation"}` : "";
  return (
    <li className={current ? "current" : ""}>
      <a href={`#/c/${encodeURIComponent(id)}`} aria-current={current ? "page" : undefined} title={fork ? `${title || "Untitled"}: ${fork}` : undefined} onClick={close}>
        {fork && <span className="fork-sign"><Icon name="fork" /></span>}
        {title || "Untitled"}
        {fork && <span className="sr"> ({fork})</span>}
      </a>
      <ConversationMenu id={id} title={title} />
    </li>
  );
}

function FoundList({ found, close }: { found: Schemas["Found"][]; close: () => void }) {
  return (
    <ul className="list" aria-label="Found">
      {found.length === 0 && <li className="list-empty">Nothing was found.</li>}
      {found.map(({ conversation, hits }) => (
        <li key={conversation.id} className="found">
          <a href={`#/c/${encodeURIComponent(conversation.id)}`} onClick={close}>{conversation.title || "Untitled"}</a>
          {hits.filter((hit) => hit.type !== "conv.title").map((hit) => <span key={hit.seq} className="hit">{plain(hit.snippet)}</span>)}
        </li>
      ))}
    </ul>
  );
}

/** Some of a message as it is read: whole words, without the marks that it is written with. */
function plain(text: string): string {
  return text
    .replace(/^…\S*\s(?=.)/, "…")
    .replace(/(?<=.)\s\S*…$/, "…")
    .replace(/\s?\[\[S:[\d,\s-]*(?:\]\]|…?$)/g, "")
    .replace(/!?\[([^\]]*)\]\([^)\s]*(?:\s"[^"]*")?\)/g, "$1")
    .replace(/(^|[\s…])(?:#{1,6}|[-*>]|\d+\.) (?:\[[ x]\] )?(?=\S)/g, "$1")
    .replace(/(\*\*|__|`+|~~)(?=\S)|(?<=\S)(\*\*|__|`+|~~)/g, "");
}

const PAUSE_MS = 200;

function useSearch(words: string): Schemas["Found"][] | null {
  const [found, setFound] = useState<Schemas["Found"][] | null>(null);
  useEffect(() => {
    if (!words) {
      setFound(null);
      return undefined;
    }
    let wanted = true;
    const timer = window.setTimeout(() => {
      get<Schemas["SearchPage"]>(withQuery(apiPath("conversations", "search"), { words, limit: 30, hits: 2 })).then(
        (page) => wanted && setFound(page.found),
        (error: unknown) => wanted && showToast(errorMessage(error)),
      );
    }, PAUSE_MS);
    return () => {
      wanted = false;
      window.clearTimeout(timer);
    };
  }, [words]);
  return found;
}
