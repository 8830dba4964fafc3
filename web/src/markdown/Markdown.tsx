/** Renders Markdown block by block. While a text grows, only its last block is rendered again. */
import { memo, useMemo } from "react";
import type { Token, Tokens } from "marked";
import remend from "remend";
import { useAppStore } from "../app/appStore";
import { Diagram } from "../diagram/Diagram";
import { CodeBlock } from "./CodeBlock";
import { useMath } from "./math";
import { blocksOf, htmlOf } from "./parse";

interface Props {
  text: string;
  /** Whether the text is still being written. Unclosed syntax is then closed for display. */
  growing?: boolean;
}

export const Markdown = memo(function Markdown({ text, growing = false }: Props) {
  const blocks = useMemo(() => blocksOf(growing ? remend(text) : text), [text, growing]);
  const math = useMath();
  const sources = useAppStore((state) => state.open?.timeline.sources) ?? NO_SOURCES;
  return (
    <div className="markdown">
      {blocks.map((token, at) => (
        <Block key={at} token={token} raw={token.raw} math={math} sources={isCiting(token.raw) ? sources : NO_SOURCES} growing={growing && at === blocks.length - 1} />
      ))}
    </div>
  );
});

const NO_SOURCES: ReadonlyMap<number, unknown> = new Map();
const isCiting = (raw: string) => /\[~?\[s:|\[\\?\[\d/i.test(raw);

interface BlockProps {
  token: Token;
  raw: string;
  math: boolean;
  sources: ReadonlyMap<number, unknown>;
  growing: boolean;
}

const Block = memo(
  function Block({ token, sources, growing }: BlockProps) {
    if (token.type === "space") return null;
    if (token.type === "code") {
      const code = token as Tokens.Code;
      const language = (code.lang ?? "").split(/\s/)[0] ?? "";
      if (language === "mermaid" && !growing) return <Diagram code={code.text} />;
      return <CodeBlock code={code.text} language={language} growing={growing} />;
    }
    return <div className="md" dangerouslySetInnerHTML={{ __html: htmlOf(token, sources) }} />;
  },
  (before, after) => before.raw === after.raw && before.math === after.math && before.sources === after.sources && before.growing === after.growing,
);
