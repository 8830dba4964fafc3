import { CSPProvider } from "@base-ui/react/csp-provider";
import { createRoot } from "react-dom/client";
import { App } from "./app/App";
import { startTheme } from "./app/theme";
import "./styles/base.css";
import "./styles/layout.css";
import "./styles/conversation.css";
import "./styles/markdown.css";
import "./styles/panels.css";

startTheme();
createRoot(document.getElementById("root")!).render(
  <CSPProvider disableStyleElements>
    <App />
  </CSPProvider>,
);
