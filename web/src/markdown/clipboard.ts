/** Prepares Markdown for the clipboard, where citations have no cards. */
import type { Source } from "../timeline/model";
import { replaceCitations } from "./parse";

/** Return the text with citations as `[1]`, and a list of the cited sources at its end. */
export function textForClipboard(text: string, sources: ReadonlyMap<number, Source>): string {
  const cited = new Set<number>();
  const plain = replaceCitations(text, (sids, raw) => {
    if (!sids.some((sid) => sources.has(sid))) return raw;
    const known = sids.filter((sid) => sources.has(sid));
    known.forEach((sid) => cited.add(sid));
    return known.map((sid) => `[${sid}]`).join("");
  });
  if (!cited.size) return plain;
  const lines = [...cited].sort((one, other) => one - other).map((sid) => `[${sid}] ${describe(sources.get(sid)!)}`);
  return `${plain.trimEnd()}\n\nSources:\n${lines.join("\n")}\n`;
}

function describe({ title, url, path }: Source): string {
  const where = url || path.slice(path.lastIndexOf("/") + 1);
  return [title, where === title ? "" : where].filter(Boolean).join(", ") || "Untitled";
}
