/** A PDF, page by page as pictures: nothing in it runs. */
import { useEffect, useRef, useState } from "react";
// The legacy build is for browsers of the last years; the other one needs those of the last months.
import * as pdfjs from "pdfjs-dist/legacy/build/pdf.mjs";
import worker from "pdfjs-dist/legacy/build/pdf.worker.min.mjs?url";
import "./pdf.css";

pdfjs.GlobalWorkerOptions.workerSrc = worker;

/** More pages than this are not drawn; the file has them. */
const MOST_PAGES = 50;
const WIDEST_PX = 900;

export default function PdfView({ url, name }: { url: string; name: string }) {
  const box = useRef<HTMLDivElement>(null);
  const [words, setWords] = useState("Loading…");
  useEffect(() => {
    const place = box.current;
    if (!place) return undefined;
    place.replaceChildren();
    const loading = pdfjs.getDocument({ url, enableXfa: false, useWasm: false, useSystemFonts: true });
    let wanted = true;
    void loading.promise
      .then(async (file) => {
        const last = Math.min(file.numPages, MOST_PAGES);
        for (let n = 1; n <= last && wanted; n++) place.append(await drawn(file, n, Math.min(place.clientWidth || WIDEST_PX, WIDEST_PX), name));
        if (wanted) setWords(file.numPages > last ? `The first ${last} of ${file.numPages} pages. Download the file for the rest.` : "");
      })
      .catch(() => wanted && setWords("This PDF cannot be shown. Download it to open it."));
    return () => {
      wanted = false;
      void loading.destroy();
    };
  }, [url, name]);
  return (
    <>
      <div className="pdf" ref={box} />
      {words && <p className="dim">{words}</p>}
    </>
  );
}

async function drawn(file: pdfjs.PDFDocumentProxy, n: number, width: number, name: string): Promise<HTMLCanvasElement> {
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
