/** Diagrams as pictures, drawn one after the other in a hidden frame; without a picture where that fails or takes too long. */
import { type Asked, type Drawn, MAX_CHARS, MAX_SVG_CHARS } from "./messages";

const PATIENCE_MS = 8000;
const MOST_KEPT = 50;

const kept = new Map<string, Promise<string>>();
let frame: Promise<HTMLIFrameElement> | null = null;
let before: Promise<unknown> = Promise.resolve();
let last = 0;

/** The picture as SVG; empty where there is none. */
export function draw(text: string, dark: boolean): Promise<string> {
  if (text.length > MAX_CHARS) return Promise.resolve("");
  const key = `${dark}${text}`;
  const found = kept.get(key);
  if (found) return found;
  const drawing = before.then(() => ask({ id: ++last, text, dark }));
  before = drawing;
  kept.set(key, drawing);
  // What was not drawn may only have lacked time.
  void drawing.then((svg) => svg || kept.delete(key));
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value!);
  return drawing;
}

async function ask(asked: Asked): Promise<string> {
  const place = await (frame ??= open());
  return new Promise((resolve) => {
    const end = (svg: string) => {
      window.clearTimeout(timer);
      window.removeEventListener("message", hear);
      resolve(svg);
    };
    const hear = (event: MessageEvent<unknown>) => {
      if (event.source === place.contentWindow && isDrawn(event.data) && event.data.id === asked.id) end(event.data.svg);
    };
    const timer = window.setTimeout(() => {
      // Whatever it is still at ends with its frame.
      place.remove();
      frame = null;
      end("");
    }, PATIENCE_MS);
    window.addEventListener("message", hear);
    // The frame is nobody's origin, so there is no other address to name.
    place.contentWindow?.postMessage(asked, "*");
  });
}

function open(): Promise<HTMLIFrameElement> {
  const place = document.createElement("iframe");
  place.className = "drawing-frame";
  place.title = "Diagrams";
  place.tabIndex = -1;
  place.ariaHidden = "true";
  place.referrerPolicy = "no-referrer";
  place.sandbox.add("allow-scripts");
  place.src = "./diagram.html";
  return new Promise((resolve) => {
    place.onload = () => resolve(place);
    document.body.append(place);
  });
}

function isDrawn(said: unknown): said is Drawn {
  if (typeof said !== "object" || said === null || !("id" in said) || !("svg" in said)) return false;
  return typeof said.svg === "string" && said.svg.length <= MAX_SVG_CHARS && (said.svg === "" || said.svg.startsWith("<svg"));
}
