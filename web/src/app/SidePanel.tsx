/** The panel beside the conversation: one subject at a time. */
import { lazy, Suspense, useEffect, useState, type CSSProperties } from "react";
import { Divider } from "./Divider";
import { Icon } from "./Icon";
import { show, usePage, type Panel } from "./store";

const PANELS: Record<Exclude<Panel, "">, { title: string; Body: React.LazyExoticComponent<() => React.ReactNode> }> = {
  sources: { title: "Sources", Body: lazy(() => import("../sources/SourcesPanel")) },
  canvas: { title: "Files", Body: lazy(() => import("../canvas/CanvasPanel")) },
  inspector: { title: "Inspector", Body: lazy(() => import("../inspector/InspectorPanel")) },
};

const WIDTH = "timeloom.panel";

export function SidePanel() {
  const panel = usePage((state) => state.panel);
  const has = usePage((state) => state.open !== null);
  useEffect(() => {
    const close = (event: KeyboardEvent) => event.key === "Escape" && !event.defaultPrevented && show("");
    window.addEventListener("keydown", close);
    return () => window.removeEventListener("keydown", close);
  }, []);
  const [width, setWidth] = useState(() => Number(window.localStorage.getItem(WIDTH)) || null);
  const resize = (to: number | null) => {
    setWidth(to);
    window.localStorage.setItem(WIDTH, String(to ?? ""));
  };
  if (!panel || !has) return null;
  const { title, Body } = PANELS[panel];
  return (
    <aside className={`panel panel-${panel}`} aria-label={title} style={width ? ({ "--panel": `${width}px` } as CSSProperties) : {}}>
      <Divider width={width} resize={resize} />
      <header className="bar">
        <h2>{title}</h2>
        <button type="button" className="icon" aria-label={`Close ${title.toLowerCase()}`} onClick={() => show("")}>
          <Icon name="close" />
        </button>
      </header>
      <Suspense fallback={<div className="panel-body" aria-busy="true" />}>
        <Body />
      </Suspense>
    </aside>
  );
}
