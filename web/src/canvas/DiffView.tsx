/** The differences between two versions, line by line. */
import { diffLines } from "diff";
import { useMemo } from "react";

/** How many unchanged lines are shown around a change. The other unchanged lines are collapsed. */
const CONTEXT_LINES = 3;

export function DiffView({ before, after }: { before: string; after: string }) {
  const lines = useMemo(() => linesOf(before, after), [before, after]);
  if (!lines.some((line) => line.sign !== " ")) return <p className="dim">No changes.</p>;
  return (
    <pre className="diff" tabIndex={0} aria-label="Changes">
      {lines.map((line, at) => (
        <span key={at} className={line.sign === "+" ? "added" : line.sign === "-" ? "removed" : line.sign === "…" ? "folded" : ""}>
          {line.sign} {line.text}{"\n"}
        </span>
      ))}
    </pre>
  );
}

interface Line {
  sign: "+" | "-" | " " | "…";
  text: string;
}

function linesOf(before: string, after: string): Line[] {
  const parts = diffLines(before, after, { timeout: 1000 }) ?? [{ value: before, removed: true, added: false }, { value: after, added: true, removed: false }];
  return parts.flatMap((part, at) => {
    const texts = part.value.replace(/\n$/, "").split("\n");
    const sign = part.added ? "+" : part.removed ? "-" : " ";
    const head = at > 0 ? CONTEXT_LINES : 0;
    const foot = at < parts.length - 1 ? CONTEXT_LINES : 0;
    const shown = texts.map((text): Line => ({ sign, text }));
    if (sign !== " " || texts.length <= head + foot + 1) return shown;
    return [...shown.slice(0, head), { sign: "…", text: `${texts.length - head - foot} lines` }, ...(foot ? shown.slice(-foot) : [])];
  });
}
