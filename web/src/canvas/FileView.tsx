/** A version of a file, as its type is best looked at. */
import { lazy, Suspense, useEffect, useMemo, useState } from "react";
import { CodeBlock } from "../markdown/CodeBlock";
import { Markdown } from "../markdown/Markdown";
import { table } from "../timeline/blocks";
import type { Artifact, Version } from "../timeline/model";
import { HtmlFrame } from "./HtmlFrame";
import { indented } from "./indent";

const PdfView = lazy(() => import("./PdfView"));

interface Props {
  file: Artifact;
  version: Version;
  asText: boolean;
  url: string;
}

const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

const DRAWN = "image/svg+xml";
const RENDERED = new Set(["text/html", "text/markdown", "text/csv", "application/json", "application/pdf", DRAWN, ...PICTURES]);

export function hasRendering(mime: string): boolean {
  return RENDERED.has(mime);
}

export function FileView({ file, version, asText, url }: Props) {
  if (PICTURES.has(file.mime)) return <Picture name={file.name} url={url} />;
  if (file.mime === "application/pdf") return <Suspense fallback={<p className="dim">Loading…</p>}><PdfView name={file.name} url={url} /></Suspense>;
  if (version.text === null) return <p className="dim">This file cannot be shown here. Download it to open it.</p>;
  if (!asText && file.mime === "text/html") return <HtmlFrame html={version.text} name={file.name} />;
  if (!asText && file.mime === "text/markdown") return <Markdown text={version.text} />;
  if (!asText && file.mime === "text/csv") return <Table text={version.text} />;
  if (!asText && file.mime === DRAWN) return <Drawing key={version.text} name={file.name} text={version.text} />;
  if (!asText && file.mime === "application/json") return <Indented text={version.text} />;
  return <CodeBlock code={version.text} language={LANGUAGES[file.mime] ?? extension(file.name)} />;
}

const LANGUAGES = table<string>({ "application/json": "json", "text/html": "html", "text/markdown": "markdown", "text/x-python": "python", "text/css": "css", "image/svg+xml": "xml" });

function extension(name: string): string {
  return name.includes(".") ? name.slice(name.lastIndexOf(".") + 1) : "";
}

function Picture({ name, url }: { name: string; url: string }) {
  const [source, setSource] = useState("");
  useEffect(() => {
    let made = "";
    void fetch(`${url}&disposition=inline`).then(async (response) => {
      if (!response.ok) return;
      made = URL.createObjectURL(await response.blob());
      setSource(made);
    });
    return () => URL.revokeObjectURL(made);
  }, [url]);
  return source ? <img className="picture" src={source} alt={name} /> : <p className="dim">Loading…</p>;
}

/** An SVG as a picture: a browser runs and loads nothing of it there. */
function Drawing({ name, text }: { name: string; text: string }) {
  const [source, setSource] = useState("");
  const [broken, setBroken] = useState(false);
  useEffect(() => {
    const made = URL.createObjectURL(new Blob([text], { type: DRAWN }));
    setSource(made);
    return () => URL.revokeObjectURL(made);
  }, [text]);
  if (broken) return <p className="dim">This picture cannot be drawn. Its source can be read.</p>;
  return source ? <img className="picture" src={source} alt={name} onError={() => setBroken(true)} /> : null;
}

function Indented({ text }: { text: string }) {
  const lines = useMemo(() => indented(text), [text]);
  return <CodeBlock code={lines} language="json" />;
}

const ROWS = 500;

function Table({ text }: { text: string }) {
  const rows = text.trimEnd().split("\n").slice(0, ROWS + 1).map(cells);
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
