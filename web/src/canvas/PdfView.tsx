/** A PDF, rendered page by page onto canvases. No script in it runs. */
import { useEffect, useRef, useState } from "react";
// The legacy build supports browsers of the last years; the other build needs very recent ones.
import * as pdfjs from "pdfjs-dist/legacy/build/pdf.mjs";
import worker from "pdfjs-dist/legacy/build/pdf.worker.min.mjs?url";
import "./pdf.css";

pdfjs.GlobalWorkerOptions.workerSrc = worker;

/** Further pages are not rendered. The download has all of them. */
const MAX_PAGES = 50;
const MAX_WIDTH_PX = 900;

export default function PdfView({ url, name }: { url: string; name: string }) {
  const box = useRef<HTMLDivElement>(null);
  const [message, setMessage] = useState("Loading…");
  useEffect(() => {
    const container = box.current;
    if (!container) return undefined;
    container.replaceChildren();
    const loading = pdfjs.getDocument({ url, enableXfa: false, useWasm: false, useSystemFonts: true });
    let isActive = true;
    void loading.promise
      .then(async (file) => {
        const last = Math.min(file.numPages, MAX_PAGES);
        for (let n = 1; n <= last && isActive; n++) container.append(await renderPage(file, n, Math.min(container.clientWidth || MAX_WIDTH_PX, MAX_WIDTH_PX), name));
        if (isActive) setMessage(file.numPages > last ? `Showing the first ${last} of ${file.numPages} pages. Download the file to see the rest.` : "");
      })
      .catch(() => isActive && setMessage("This PDF cannot be displayed. Download it to open it."));
    return () => {
      isActive = false;
      void loading.destroy();
    };
  }, [url, name]);
  return (
    <>
      <div className="pdf" ref={box} />
      {message && <p className="dim">{message}</p>}
    </>
  );
}

async function renderPage(file: pdfjs.PDFDocumentProxy, n: number, width: number, name: string): Promise<HTMLCanvasElement> {
  const page = await file.getPage(n);
  const scale = (width / page.getViewport({ scale: 1 }).width) * window.devicePixelRatio;
  const viewport = page.getViewport({ scale });
  const canvas = document.createElement("canvas");
  canvas.width = viewport.width;
  canvas.height = viewport.height;
  canvas.setAttribute("role", "img");
  const { items } = await page.getTextContent();
  const text = items.map((item) => ("str" in item ? item.str : "")).join(" ").trim();
  canvas.setAttribute("aria-label", `${name}, page ${n}: ${text}`);
  await page.render({ canvas, viewport }).promise;
  return canvas;
}
