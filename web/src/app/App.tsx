/** The page: the list of conversations, the open conversation and the side panel. */
import { useEffect } from "react";
import { Conversation } from "../conversation/Conversation";
import { focusComposer } from "../conversation/draft";
import { Login } from "../login/Login";
import { Sidebar } from "../sidebar/Sidebar";
import { CitationCard } from "../sources/CitationCard";
import { SidePanel } from "./SidePanel";
import { useRoute } from "./route";
import { signIn, useAppStore } from "./appStore";
import { closeConversation, openConversation } from "./liveConversation";

export function App() {
  const authState = useAppStore((state) => state.authState);
  const toast = useAppStore((state) => state.toast);
  const route = useRoute();
  useEffect(() => void signIn(), []);
  useEffect(() => {
    if (authState !== "signedIn") return;
    if (route) openConversation(route);
    else closeConversation();
  }, [route, authState]);
  useTitle();
  if (authState === "checking") return <div className="starting" aria-busy="true" />;
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

function useTitle() {
  const title = useAppStore((state) => state.open?.timeline.title ?? "");
  useEffect(() => {
    document.title = title ? `${title} · timeloom` : "timeloom";
  }, [title]);
}
