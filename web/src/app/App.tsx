/** The page: conversations on the left, the open one in the middle, and beside it what it is looked at with. */
import { useEffect } from "react";
import { Conversation } from "../conversation/Conversation";
import { focusComposer } from "../conversation/draft";
import { Login } from "../login/Login";
import { Sidebar } from "../sidebar/Sidebar";
import { CitationCard } from "../sources/CitationCard";
import { SidePanel } from "./SidePanel";
import { useRoute } from "./route";
import { closeConversation, comeIn, openConversation, usePage } from "./store";

export function App() {
  const entered = usePage((state) => state.entered);
  const toast = usePage((state) => state.toast);
  const route = useRoute();
  useEffect(() => void comeIn(), []);
  useEffect(() => {
    if (entered !== "yes") return;
    if (route) openConversation(route);
    else closeConversation();
  }, [route, entered]);
  useTitle();
  if (entered === "asking") return <div className="starting" aria-busy="true" />;
  if (entered !== "yes") return <Login />;
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
  const title = usePage((state) => state.open?.timeline.title ?? "");
  useEffect(() => {
    document.title = title ? `${title} · timeloom` : "timeloom";
  }, [title]);
}
