/** Runs inside the diagram frame: receives Mermaid text by message and replies with an SVG. The frame has no origin and no network access. */
import mermaid, { type MermaidConfig } from "mermaid";
import { type DrawRequest, MAX_CHARS } from "./messages";

const SETTINGS: MermaidConfig = {
  startOnLoad: false,
  securityLevel: "strict",
  // HTML labels would be measured in this frame but drawn in the page, so labels are SVG text.
  htmlLabels: false,
  // The other layout engine is larger than the rest of the frame.
  layout: "dagre",
  suppressErrorRendering: true,
  logLevel: "fatal",
  maxTextSize: MAX_CHARS,
  fontFamily: 'ui-sans-serif, system-ui, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "Liberation Sans", sans-serif',
  // Settings that the text of a diagram must not override.
  secure: ["secure", "securityLevel", "startOnLoad", "htmlLabels", "layout", "suppressErrorRendering", "logLevel", "maxTextSize", "maxEdges", "fontFamily", "themeCSS", "theme", "themeVariables", "darkMode"],
};

addEventListener("message", (event: MessageEvent<DrawRequest>) => {
  if (event.source === parent) void draw(event.data);
});

async function draw({ id, text, dark }: DrawRequest): Promise<void> {
  let svg = "";
  try {
    mermaid.initialize({ ...SETTINGS, theme: dark ? "dark" : "default", darkMode: dark });
    svg = toImage((await mermaid.render(`drawing-${id}`, text)).svg);
  } catch {
    // Not a valid diagram: the empty reply makes the page show the text.
  }
  parent.postMessage({ id, svg }, "*");
}

/** Return the SVG as XML with a fixed size, because an `img` cannot take the width of the page around it. */
function toImage(html: string): string {
  const svg = new DOMParser().parseFromString(html, "text/html").querySelector("svg");
  if (!svg) return "";
  const { width, height } = svg.viewBox.baseVal;
  svg.setAttribute("width", `${Math.ceil(width)}`);
  svg.setAttribute("height", `${Math.ceil(height)}`);
  return new XMLSerializer().serializeToString(svg);
}
