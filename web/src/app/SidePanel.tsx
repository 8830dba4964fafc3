/** The panel beside the conversation: sources, files or the inspector. */
import { lazy, Suspense, useEffect, useState, type CSSProperties } from "react";
import { Divider } from "./Divider";
import { Icon } from "./Icon";
import { type Panel, showPanel, useAppStore } from "./appStore";

const PANELS: Record<Exclude<Panel, "">, { title: string; Body: React.LazyExoticComponent<() => React.ReactNode> }> = {
  sources: { title: "Sources", Body: lazy(() => import("../sources/SourcesPanel")) },
  canvas: { title: "Files", Body: lazy(() => import("../canvas/CanvasPanel")) },
  inspector: { title: "Inspector", Body: lazy(() => import("../inspector/InspectorPanel")) },
};

const WIDTH_KEY = "timeloom.panel";

export function SidePanel() {
  const panel = useAppStore((state) => state.panel);
  const isConversationOpen = useAppStore((state) => state.open !== null);
  useEffect(() => {
    const close = (event: KeyboardEvent) => event.key === "Escape" && !event.defaultPrevented && showPanel("");
    window.addEventListener("keydown", close);
    return () => window.removeEventListener("keydown", close);
  }, []);
  const [width, setWidth] = useState(() => Number(window.localStorage.getItem(WIDTH_KEY)) || null);
  const resize = (to: number | null) => {
    setWidth(to);
    window.localStorage.setItem(WIDTH_KEY, String(to ?? ""));
  };
  if (!panel || !isConversationOpen) return null;
  const { title, Body } = PANELS[panel];
  return (
    <aside className={`panel panel-${panel}`} aria-label={title} style={width ? ({ "--panel": `${width}px` } as CSSProperties) : {}}>
      <Divider width={width} resize={resize} />
      <header className="bar">
        <h2>{title}</h2>
        <button type="button" className="icon" aria-label={`Close ${title.toLowerCase()}`} onClick={() => showPanel("")}>
          <Icon name="close" />
        </button>
      </header>
      <Suspense fallback={<div className="panel-body" aria-busy="true" />}>
        <Body />
      </Suspense>
    </aside>
  );
}
