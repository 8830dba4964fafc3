/** Shows a version of a file in the view for its type. */
import { lazy, Suspense, useEffect, useMemo, useState } from "react";
import { CodeBlock } from "../markdown/CodeBlock";
import { Markdown } from "../markdown/Markdown";
import { table } from "../timeline/blocks";
import type { Artifact, Version } from "../timeline/model";
import { HtmlFrame } from "./HtmlFrame";
import { indentJson } from "./indent";

const PdfView = lazy(() => import("./PdfView"));

interface Props {
  file: Artifact;
  version: Version;
  asText: boolean;
  url: string;
}

const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

const SVG = "image/svg+xml";
const HAS_PREVIEW = new Set(["text/html", "text/markdown", "text/csv", "application/json", "application/pdf", SVG, ...IMAGES]);

export function hasPreview(mime: string): boolean {
  return HAS_PREVIEW.has(mime);
}

export function FileView({ file, version, asText, url }: Props) {
  if (IMAGES.has(file.mime)) return <ImageView name={file.name} url={url} />;
  if (file.mime === "application/pdf") return <Suspense fallback={<p className="dim">Loading…</p>}><PdfView name={file.name} url={url} /></Suspense>;
  if (version.text === null) return <p className="dim">This file cannot be displayed here. Download it to open it.</p>;
  if (!asText && file.mime === "text/html") return <HtmlFrame html={version.text} name={file.name} />;
  if (!asText && file.mime === "text/markdown") return <Markdown text={version.text} />;
  if (!asText && file.mime === "text/csv") return <CsvView text={version.text} />;
  if (!asText && file.mime === SVG) return <SvgView key={version.text} name={file.name} text={version.text} />;
  if (!asText && file.mime === "application/json") return <JsonView text={version.text} />;
  return <CodeBlock code={version.text} language={languageOfFile(file.name, file.mime)} />;
}

/** Return the language of a file for highlighting, by its type or the suffix of its name. */
export function languageOfFile(name: string, mime: string): string {
  return LANGUAGES[mime] ?? extension(name);
}

const LANGUAGES = table<string>({ "application/json": "json", "text/html": "html", "text/markdown": "markdown", "text/x-python": "python", "text/css": "css", "image/svg+xml": "xml" });

function extension(name: string): string {
  return name.includes(".") ? name.slice(name.lastIndexOf(".") + 1) : "";
}

function ImageView({ name, url }: { name: string; url: string }) {
  const [source, setSource] = useState("");
  useEffect(() => {
    let blobUrl = "";
    void fetch(`${url}&disposition=inline`).then(async (response) => {
      if (!response.ok) return;
      blobUrl = URL.createObjectURL(await response.blob());
      setSource(blobUrl);
    });
    return () => URL.revokeObjectURL(blobUrl);
  }, [url]);
  return source ? <img className="picture" src={source} alt={name} /> : <p className="dim">Loading…</p>;
}

/** An SVG in an `img` element, where a browser runs no scripts and loads no resources. */
function SvgView({ name, text }: { name: string; text: string }) {
  const [source, setSource] = useState("");
  const [isBroken, setIsBroken] = useState(false);
  useEffect(() => {
    const blobUrl = URL.createObjectURL(new Blob([text], { type: SVG }));
    setSource(blobUrl);
    return () => URL.revokeObjectURL(blobUrl);
  }, [text]);
  if (isBroken) return <p className="dim">This image cannot be displayed. Select Source to see its text.</p>;
  return source ? <img className="picture" src={source} alt={name} onError={() => setIsBroken(true)} /> : null;
}

function JsonView({ text }: { text: string }) {
  const lines = useMemo(() => indentJson(text), [text]);
  return <CodeBlock code={lines} language="json" />;
}

const MAX_ROWS = 500;

function CsvView({ text }: { text: string }) {
  const rows = text.trimEnd().split("\n").slice(0, MAX_ROWS + 1).map(cells);
  const [head, ...body] = rows;
  return (
    <div className="md"><div className="table" tabIndex={0} role="region" aria-label="Table">
      <table>
        <thead><tr>{head?.map((cell, at) => <th key={at}>{cell}</th>)}</tr></thead>
        <tbody>{body.map((row, at) => <tr key={at}>{row.map((cell, column) => <td key={column}>{cell}</td>)}</tr>)}</tbody>
      </table>
    </div></div>
  );
}

function cells(line: string): string[] {
  const found = line.replace(/\r$/, "").match(/"(?:[^"]|"")*"|[^,]+|(?<=,|^)(?=,|$)/g) ?? [];
  return found.map((cell) => (cell.startsWith('"') ? cell.slice(1, -1).replaceAll('""', '"') : cell));
}
