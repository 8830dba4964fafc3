/** The page: the list of conversations, the open conversation and the side panel. */
import { useEffect } from "react";
import { Conversation } from "../conversation/Conversation";
import { focusComposer } from "../conversation/draft";
import { Login, SignedOutOfApp } from "../login/Login";
import { Sidebar } from "../sidebar/Sidebar";
import { conversationTitle } from "../timeline/fold";
import { CitationCard } from "../sources/CitationCard";
import { SidePanel } from "./SidePanel";
import { useRoute } from "./route";
import { loadUser, refreshLists, useAppStore } from "./appStore";
import { closeConversation, openConversation } from "./liveConversation";

/** How often the lists of conversations and approvals are loaded again while the page is visible. Reading the approvals
 * of other users is recorded in the audit log, so not more often. */
const REFRESH_MS = 20000;

export function App() {
  const authState = useAppStore((state) => state.authState);
  const toast = useAppStore((state) => state.toast);
  const route = useRoute();
  useEffect(() => void loadUser(), []);
  useEffect(() => {
    if (authState === "signedIn" && route) openConversation(route);
    else closeConversation();
  }, [route, authState]);
  useRefresh(authState === "signedIn");
  useTitle();
  if (authState === "checking") return <div className="starting" aria-busy="true" />;
  if (authState === "signedOutOfApp") return <SignedOutOfApp />;
  if (authState !== "signedIn") return <Login />;
  return (
    <div className="page">
      <button type="button" className="skip" onClick={focusComposer}>Skip to the message field</button>
      <Sidebar />
      <Conversation />
      <SidePanel />
      <CitationCard />
      <div className="toast" role="status" aria-live="polite">
        {toast && <span>{toast}</span>}
      </div>
    </div>
  );
}

/** Keep the lists current while the page is visible, and at once when it becomes visible. */
function useRefresh(isSignedIn: boolean) {
  useEffect(() => {
    if (!isSignedIn) return undefined;
    const refresh = () => document.visibilityState === "visible" && void refreshLists();
    const timer = window.setInterval(refresh, REFRESH_MS);
    document.addEventListener("visibilitychange", refresh);
    return () => {
      window.clearInterval(timer);
      document.removeEventListener("visibilitychange", refresh);
    };
  }, [isSignedIn]);
}

function useTitle() {
  const title = useAppStore((state) => (state.open ? conversationTitle(state.open.timeline) : ""));
  const waiting = useAppStore((state) => state.approvals.length);
  useEffect(() => {
    document.title = `${waiting ? `(${waiting}) ` : ""}${title ? `${title} · ` : ""}timeloom`;
  }, [title, waiting]);
}
