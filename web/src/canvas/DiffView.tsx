/** What changed between two versions, line by line. */
import { diffLines } from "diff";
import { useMemo } from "react";

/** Lines around a change that are shown; longer runs of what stayed are folded. */
const AROUND = 3;

export function DiffView({ before, after }: { before: string; after: string }) {
  const lines = useMemo(() => linesOf(before, after), [before, after]);
  if (!lines.some((line) => line.sign !== " ")) return <p className="dim">Nothing changed.</p>;
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
    const head = at > 0 ? AROUND : 0;
    const foot = at < parts.length - 1 ? AROUND : 0;
    const shown = texts.map((text): Line => ({ sign, text }));
    if (sign !== " " || texts.length <= head + foot + 1) return shown;
    return [...shown.slice(0, head), { sign: "…", text: `${texts.length - head - foot} lines` }, ...(foot ? shown.slice(-foot) : [])];
  });
}
