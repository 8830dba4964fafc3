/** Runs in the frame that draws diagrams: text comes in by message, a picture goes back. It has no origin and no way out. */
import mermaid, { type MermaidConfig } from "mermaid";
import { type Asked, MAX_CHARS } from "./messages";

const SETTINGS: MermaidConfig = {
  startOnLoad: false,
  securityLevel: "strict",
  // Labels are SVG: HTML in them would be measured here and drawn elsewhere.
  htmlLabels: false,
  // The other way to lay out is larger than all the rest.
  layout: "dagre",
  suppressErrorRendering: true,
  logLevel: "fatal",
  maxTextSize: MAX_CHARS,
  fontFamily: 'ui-sans-serif, system-ui, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "Liberation Sans", sans-serif',
  // What the text of a diagram may not change.
  secure: ["secure", "securityLevel", "startOnLoad", "htmlLabels", "layout", "suppressErrorRendering", "logLevel", "maxTextSize", "maxEdges", "fontFamily", "themeCSS", "theme", "themeVariables", "darkMode"],
};

addEventListener("message", (event: MessageEvent<Asked>) => {
  if (event.source === parent) void answer(event.data);
});

async function answer({ id, text, dark }: Asked): Promise<void> {
  let svg = "";
  try {
    mermaid.initialize({ ...SETTINGS, theme: dark ? "dark" : "default", darkMode: dark });
    svg = asPicture((await mermaid.render(`drawing-${id}`, text)).svg);
  } catch {
    // It is no diagram, and then the page shows its text.
  }
  parent.postMessage({ id, svg }, "*");
}

/** As XML with a size of its own: a picture has no page around it that it could be as wide as. */
function asPicture(html: string): string {
  const svg = new DOMParser().parseFromString(html, "text/html").querySelector("svg");
  if (!svg) return "";
  const { width, height } = svg.viewBox.baseVal;
  svg.setAttribute("width", `${Math.ceil(width)}`);
  svg.setAttribute("height", `${Math.ceil(height)}`);
  return new XMLSerializer().serializeToString(svg);
}
