/** What is known of a source: its title, where and when it is from, and a piece of it. */
import { show } from "../app/store";
import { table } from "../timeline/blocks";
import type { Source } from "../timeline/model";

const KINDS = table<string>({ web: "Web page", file: "File", attachment: "Attachment", manual: "Entered by hand" });
const SNIPPET = 280;

export function SourceFacts({ source }: { source: Source }) {
  const snippet = source.text.length > SNIPPET ? `${source.text.slice(0, SNIPPET)}…` : source.text;
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
    return <button type="button" className="small" onClick={() => show("canvas", source.path)}>Open the file</button>;
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
  // Browsers find a date in almost any text.
  const date = new Date(/^\d{4}-\d\d-\d\d(?:[T ][\d:.Z+-]+)?$/.test(source.date) ? source.date : "");
  return !Number.isNaN(date.getTime()) ? date.toLocaleDateString([], { year: "numeric", month: "short", day: "numeric" }) : "";
}
