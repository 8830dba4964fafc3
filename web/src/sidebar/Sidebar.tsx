/** The list of conversations by day, newest first, or the results of a search. */
import { Fragment, useEffect, useState } from "react";
import { apiPath, type ConversationMatch, get, type SearchPage, withQuery } from "../api/client";
import { day } from "../app/format";
import { Icon } from "../app/Icon";
import { navigate } from "../app/route";
import { errorMessage, listConversations, showToast, useAppStore } from "../app/appStore";
import { ConversationMenu } from "./ConversationMenu";
import { ThemeButton } from "./ThemeButton";

export function Sidebar() {
  const shown = useAppStore((state) => state.sidebar);
  const me = useAppStore((state) => state.me);
  const [query, setQuery] = useState("");
  const results = useSearch(query.trim());
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
          <input id="find" type="search" placeholder="Search" value={query} onChange={(event) => setQuery(event.target.value)} />
        </div>
        {results ? <SearchResults results={results} close={close} /> : <DayList close={close} />}
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
            <ConversationRow id={one.id} title={one.title} parent={one.parent} close={close} />
          </Fragment>
        );
      })}
      {conversations.length === 0 && <li className="list-empty">No conversations yet.</li>}
      {more && <li><button type="button" className="quiet" onClick={() => void listConversations(true)}>Show more</button></li>}
    </ul>
  );
}

function ConversationRow({ id, title, parent, close }: { id: string; title: string; parent: string | null; close: () => void }) {
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

function SearchResults({ results, close }: { results: ConversationMatch[]; close: () => void }) {
  return (
    <ul className="list" aria-label="Search results">
      {results.length === 0 && <li className="list-empty">No results.</li>}
      {results.map(({ conversation, hits }) => (
        <li key={conversation.id} className="found">
          <a href={`#/c/${encodeURIComponent(conversation.id)}`} onClick={close}>{conversation.title || "Untitled"}</a>
          {hits.filter((hit) => hit.type !== "conv.title").map((hit) => <span key={hit.seq} className="hit">{plainText(hit.snippet)}</span>)}
        </li>
      ))}
    </ul>
  );
}

/** Return a snippet without Markdown syntax and without the cut words at its ends. */
function plainText(text: string): string {
  return text
    .replace(/^…\S*\s(?=.)/, "…")
    .replace(/(?<=.)\s\S*…$/, "…")
    .replace(/\s?\[\[S:[\d,\s-]*(?:\]\]|…?$)/g, "")
    .replace(/!?\[([^\]]*)\]\([^)\s]*(?:\s"[^"]*")?\)/g, "$1")
    .replace(/(^|[\s…])(?:#{1,6}|[-*>]|\d+\.) (?:\[[ x]\] )?(?=\S)/g, "$1")
    .replace(/(\*\*|__|`+|~~)(?=\S)|(?<=\S)(\*\*|__|`+|~~)/g, "");
}

/** How long the user must stop typing before a search starts. */
const DEBOUNCE_MS = 200;

function useSearch(query: string): ConversationMatch[] | null {
  const [results, setResults] = useState<ConversationMatch[] | null>(null);
  useEffect(() => {
    if (!query) {
      setResults(null);
      return undefined;
    }
    let isActive = true;
    const timer = window.setTimeout(() => {
      get<SearchPage>(withQuery(apiPath("conversations", "search"), { words: query, limit: 30, hits: 2 })).then(
        (page) => isActive && setResults(page.found),
        (error: unknown) => isActive && showToast(errorMessage(error)),
      );
    }, DEBOUNCE_MS);
    return () => {
      isActive = false;
      window.clearTimeout(timer);
    };
  }, [query]);
  return results;
}
