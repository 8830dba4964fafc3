/** A file on its way: what there is of it, as far as its type can be guessed, kept at its end unless somebody scrolls up. */
import { useLayoutEffect, useRef } from "react";
import { count } from "../app/format";
import { CodeBlock } from "../markdown/CodeBlock";
import { Markdown } from "../markdown/Markdown";

/** How near to its end it must be to be kept there while it grows. */
const NEAR_PX = 80;

export function Draft({ text }: { text: string }) {
  const box = useRef<HTMLElement>(null);
  const isNear = useRef(true);
  useLayoutEffect(() => {
    if (box.current && isNear.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  const scrolled = () => {
    const at = box.current;
    if (at) isNear.current = at.scrollHeight - at.scrollTop - at.clientHeight < NEAR_PX;
  };
  const language = languageOf(text);
  return (
    <section className="draft" aria-label="File on its way" ref={box} onScroll={scrolled} tabIndex={0}>
      <p className="dim"><span className="shimmer">Being written…</span> {count(text.length)} characters</p>
      {language ? <CodeBlock code={text} language={language} growing /> : <Markdown text={text} growing />}
    </section>
  );
}

/** What it looks like; its name is not known before it is whole. */
function languageOf(text: string): string {
  const start = text.trimStart().slice(0, 200);
  if (/^<(!doctype|html|svg|\?xml|[a-z]+[ >])/i.test(start)) return "html";
  if (/^[[{]/.test(start)) return "json";
  return /^(#!|import |from \w|def |class |function |const |let |use |package |"""|\/\/|\/\*)/.test(start) ? "text" : "";
}
