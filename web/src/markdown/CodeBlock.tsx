/** A program or any text as it is, with its language, colours and a button that copies it. */
import { memo, type ReactNode, useEffect, useState } from "react";
import { highlight, languageOf, type Piece } from "./highlight";

interface Props {
  code: string;
  language: string;
  /** Whether it is still being written; then colours wait. */
  growing?: boolean;
  /** What can be done with it beside copying. */
  button?: ReactNode;
}

export const CodeBlock = memo(function CodeBlock({ code, language, growing = false, button }: Props) {
  const lines = useHighlighted(code, growing ? "" : languageOf(language));
  return (
    <div className="code">
      <div className="code-head">
        <span>{language || "text"}</span>
        <span className="code-buttons">{button}<CopyButton text={code} /></span>
      </div>
      <pre tabIndex={0} aria-label={`Code${language ? ` in ${language}` : ""}`}>
        <code>{lines ? lines.map((line, at) => <Line key={at} line={line} last={at === lines.length - 1} />) : code}</code>
      </pre>
    </div>
  );
});

function Line({ line, last }: { line: Piece[]; last: boolean }) {
  return (
    <>
      {line.map((piece, at) => (piece.kind ? <span key={at} className={`tk-${piece.kind}`}>{piece.text}</span> : piece.text))}
      {last ? "" : "\n"}
    </>
  );
}

function useHighlighted(code: string, language: string): Piece[][] | null {
  const [done, setDone] = useState<{ code: string; lines: Piece[][] } | null>(null);
  useEffect(() => {
    let wanted = true;
    if (language) void highlight(code, language).then((lines) => wanted && lines && setDone({ code, lines }), () => undefined);
    return () => {
      wanted = false;
    };
  }, [code, language]);
  return done?.code === code ? done.lines : null;
}

export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return undefined;
    const timer = window.setTimeout(() => setCopied(false), 1500);
    return () => window.clearTimeout(timer);
  }, [copied]);
  return (
    <button type="button" className="quiet small" onClick={() => void navigator.clipboard.writeText(text).then(() => setCopied(true))}>
      {copied ? "Copied" : label}
    </button>
  );
}
