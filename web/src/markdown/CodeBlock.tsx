/** Code or plain text with its language, syntax highlighting and a copy button. */
import { memo, type ReactNode, useEffect, useState } from "react";
import { highlight, type HighlightedText } from "./highlight";
import { type Language, languageOf } from "./languages";

interface Props {
  code: string;
  language: string;
  /** Whether the text is still being written. It is highlighted once it is complete. */
  growing?: boolean;
  /** A further button beside the copy button. */
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

function Line({ line, last }: { line: HighlightedText[]; last: boolean }) {
  return (
    <>
      {line.map((part, at) => (part.kind ? <span key={at} className={`tk-${part.kind}`}>{part.text}</span> : part.text))}
      {last ? "" : "\n"}
    </>
  );
}

function useHighlighted(code: string, language: Language | ""): HighlightedText[][] | null {
  const [done, setDone] = useState<{ code: string; lines: HighlightedText[][] } | null>(null);
  useEffect(() => {
    let isActive = true;
    if (language) void highlight(code, language).then((lines) => isActive && lines && setDone({ code, lines }), () => undefined);
    return () => {
      isActive = false;
    };
  }, [code, language]);
  return done?.code === code ? done.lines : null;
}

export function CopyButton({ text, label = "Copy" }: { text: string | (() => string); label?: string }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return undefined;
    const timer = window.setTimeout(() => setCopied(false), 1500);
    return () => window.clearTimeout(timer);
  }, [copied]);
  return (
    <button type="button" className="quiet small" onClick={() => void navigator.clipboard.writeText(typeof text === "string" ? text : text()).then(() => setCopied(true))}>
      {copied ? "Copied" : label}
    </button>
  );
}
