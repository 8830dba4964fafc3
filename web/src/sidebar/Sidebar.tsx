/** The list of conversations by day, newest first, or the results of a search. */
import { Fragment, useEffect, useState } from "react";
import { call, type ConversationMatch, type ListedConversation } from "../api/client";
import { day } from "../app/format";
import { Icon } from "../app/Icon";
import { conversationHash, navigate } from "../app/route";
import { errorMessage, listConversations, showToast, signOut, useAppStore } from "../app/appStore";
import { conversationTitle } from "../timeline/fold";
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
        <Approvals close={close} />
        {results ? <SearchResults results={results} close={close} /> : <DayList close={close} />}
        <footer>
          <span className="who" title={me ? `${me.user} in ${me.tenant}/${me.project}, model ${me.model}` : ""}>{[me?.user, me?.model].filter(Boolean).join(" · ")}</span>
          <ThemeButton />
          {me?.signs_in !== false && <button type="button" className="quiet small" onClick={() => void signOut().catch((error: unknown) => showToast(errorMessage(error)))}>Sign out</button>}
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
            <ConversationRow conversation={one} close={close} />
          </Fragment>
        );
      })}
      {conversations.length === 0 && <li className="list-empty">No conversations yet.</li>}
      {more && <li><button type="button" className="quiet" onClick={() => void listConversations(true)}>Show more</button></li>}
    </ul>
  );
}

/** The calls that wait for a decision of the user, in all conversations. */
function Approvals({ close }: { close: () => void }) {
  const approvals = useAppStore((state) => state.approvals);
  if (!approvals.length) return null;
  return (
    <div className="waiting-list" role="group" aria-label="Waiting for approval">
      <div className="list-day">Waiting for approval <span className="badge">{approvals.length}</span></div>
      <ul>
        {approvals.map(({ conversation_id, tool_call_id, title, user, tool_id, text }) => (
          <li key={`${conversation_id} ${tool_call_id}`}>
            <a href={conversationHash(conversation_id)} onClick={close}>
              <span dir="auto">{title || "Untitled"}</span>
              <span className="dim" dir="auto">{[user, tool_id === "model" ? "model call" : tool_id, text].filter(Boolean).join(" · ")}</span>
            </a>
          </li>
        ))}
      </ul>
    </div>
  );
}

const STATES: Partial<Record<ListedConversation["state"], string>> = { running: "running", waiting: "waiting for approval" };

function ConversationRow({ conversation, close }: { conversation: ListedConversation; close: () => void }) {
  const { id, parent, state = "idle" } = conversation;
  const current = useAppStore((page) => page.open?.id === id);
  // A new conversation has no title until its first turn has ended.
  const title = useAppStore((page) => conversation.title || (page.open?.id === id ? conversationTitle(page.open.timeline) : ""));
  const origin = useAppStore((state) => state.conversations.find((one) => one.id === parent)?.title);
  const fork = parent ? `fork of ${origin || "another conversation"}` : "";
  return (
    <li className={current ? "current" : ""}>
      <a href={`#/c/${encodeURIComponent(id)}`} aria-current={current ? "page" : undefined} title={fork ? `${title || "Untitled"}: ${fork}` : undefined} onClick={close}>
        {fork && <span className="fork-sign"><Icon name="fork" /></span>}
        {STATES[state] && <span className={`state state-${state}`} role="img" aria-label={STATES[state]} title={STATES[state]} />}
        <span dir="auto">{title || "Untitled"}</span>
        {fork && <span className="sr"> ({fork})</span>}
      </a>
      <ConversationMenu id={id} title={conversation.title ?? ""} />
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
    .replace(/\s?\[~?\[s:[\d, \u2010-\u2014\u2212-]*(?:\]\]|…?$)/gi, "")
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
      call("search_conversations", { query: { words: query, limit: 30, hits: 2 } }).then(
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
