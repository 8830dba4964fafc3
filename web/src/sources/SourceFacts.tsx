/** A source's title, origin, date and snippet. */
import { showPanel } from "../app/appStore";
import { table } from "../timeline/blocks";
import type { Source } from "../timeline/model";

const KINDS = table<string>({ web: "Web page", file: "File", attachment: "Attachment", manual: "Added manually" });
const MAX_SNIPPET_CHARS = 280;

export function SourceFacts({ source }: { source: Source }) {
  const snippet = source.text.length > MAX_SNIPPET_CHARS ? `${source.text.slice(0, MAX_SNIPPET_CHARS)}…` : source.text;
  return (
    <div className="source-facts">
      <div className="source-title"><span className="cite-number">{source.sid}</span> {source.title || source.url || source.path || "Untitled"}</div>
      <div className="dim source-where">{[domainOf(source), KINDS[source.source_type] ?? source.source_type, dateOf(source)].filter(Boolean).join(" · ")}</div>
      {snippet && <p className="source-text">{snippet}</p>}
    </div>
  );
}

export function SourceLink({ source }: { source: Source }) {
  if (source.path.startsWith("fi:")) {
    return <button type="button" className="small" onClick={() => showPanel("canvas", source.path)}>Open the file</button>;
  }
  if (!/^https?:\/\//i.test(source.url)) return null;
  return <a href={source.url} target="_blank" rel="noopener noreferrer">Open {domainOf(source) || "the page"}</a>;
}

export function domainOf(source: Source): string {
  if (source.domain) return source.domain;
  try {
    return new URL(source.url).hostname.replace(/^www\./, "");
  } catch {
    return "";
  }
}

function dateOf(source: Source): string {
  // `Date` parses almost any text, so accept only ISO dates.
  const date = new Date(/^\d{4}-\d\d-\d\d(?:[T ][\d:.Z+-]+)?$/.test(source.date) ? source.date : "");
  return !Number.isNaN(date.getTime()) ? date.toLocaleDateString([], { year: "numeric", month: "short", day: "numeric" }) : "";
}
