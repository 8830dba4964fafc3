/** Draws diagrams as SVG, one at a time, in a hidden sandboxed frame. */
import { type DrawRequest, type DrawResult, MAX_CHARS, MAX_SVG_CHARS } from "./messages";

const TIMEOUT_MS = 8000;
const MAX_CACHED = 50;

const cache = new Map<string, Promise<string>>();
let frame: Promise<HTMLIFrameElement> | null = null;
let previous: Promise<unknown> = Promise.resolve();
let lastId = 0;

/** Return the diagram as SVG, or an empty string if it is invalid, too long or takes too long to draw. */
export function draw(text: string, dark: boolean): Promise<string> {
  if (text.length > MAX_CHARS) return Promise.resolve("");
  const key = `${dark}${text}`;
  const found = cache.get(key);
  if (found) return found;
  const drawing = previous.then(() => requestDrawing({ id: ++lastId, text, dark }));
  previous = drawing;
  cache.set(key, drawing);
  // A failure may be a timeout, so it is not cached.
  void drawing.then((svg) => svg || cache.delete(key));
  if (cache.size > MAX_CACHED) cache.delete(cache.keys().next().value!);
  return drawing;
}

async function requestDrawing(request: DrawRequest): Promise<string> {
  const iframe = await (frame ??= openFrame());
  return new Promise((resolve) => {
    const end = (svg: string) => {
      window.clearTimeout(timer);
      window.removeEventListener("message", onMessage);
      resolve(svg);
    };
    const onMessage = (event: MessageEvent<unknown>) => {
      if (event.source === iframe.contentWindow && isDrawResult(event.data) && event.data.id === request.id) end(event.data.svg);
    };
    const timer = window.setTimeout(() => {
      // Removing the frame ends the drawing that is still running in it.
      iframe.remove();
      frame = null;
      end("");
    }, TIMEOUT_MS);
    window.addEventListener("message", onMessage);
    // A sandboxed frame has no origin, so "*" is the only possible target.
    iframe.contentWindow?.postMessage(request, "*");
  });
}

function openFrame(): Promise<HTMLIFrameElement> {
  const iframe = document.createElement("iframe");
  iframe.className = "drawing-frame";
  iframe.title = "Diagrams";
  iframe.tabIndex = -1;
  iframe.ariaHidden = "true";
  iframe.referrerPolicy = "no-referrer";
  iframe.sandbox.add("allow-scripts");
  iframe.src = "./diagram.html";
  return new Promise((resolve) => {
    iframe.onload = () => resolve(iframe);
    document.body.append(iframe);
  });
}

function isDrawResult(data: unknown): data is DrawResult {
  if (typeof data !== "object" || data === null || !("id" in data) || !("svg" in data)) return false;
  return typeof data.svg === "string" && data.svg.length <= MAX_SVG_CHARS && (data.svg === "" || data.svg.startsWith("<svg"));
}
