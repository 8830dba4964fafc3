/** A file that the agent is writing. It stays scrolled to its end unless the user scrolls up. */
import { useLayoutEffect, useRef } from "react";
import { count } from "../app/format";
import { CodeBlock } from "../markdown/CodeBlock";
import { Markdown } from "../markdown/Markdown";
import { nameOf } from "../timeline/fold";
import type { LiveFile } from "../timeline/model";
import { languageOfFile } from "./FileView";

/** Within this distance from the end, the text stays scrolled to the end while it grows. */
const NEAR_END_PX = 80;

export function Draft({ file: { path, mime, text }, isWaiting }: { file: LiveFile; isWaiting: boolean }) {
  const box = useRef<HTMLElement>(null);
  const isNearEnd = useRef(true);
  useLayoutEffect(() => {
    if (box.current && isNearEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  const onScroll = () => {
    const at = box.current;
    if (at) isNearEnd.current = at.scrollHeight - at.scrollTop - at.clientHeight < NEAR_END_PX;
  };
  const language = mime ? (mime === "text/markdown" ? "" : languageOfFile(path, mime)) : guessLanguage(text);
  const name = path ? nameOf(path) : "";
  return (
    <section className="draft" aria-label="File in progress" ref={box} onScroll={onScroll} tabIndex={0}>
      <p className="dim">{isWaiting ? <span>{name} waits for approval ·</span> : <span className="shimmer">{name ? `Writing ${name}…` : "Writing…"}</span>} {count(text.length)} characters</p>
      {language || (mime && mime !== "text/markdown") ? <CodeBlock code={text} language={language} growing /> : <Markdown text={text} growing />}
    </section>
  );
}

/** Guess the language from the text of a file whose name is not known yet. */
function guessLanguage(text: string): string {
  const start = text.trimStart().slice(0, 200);
  if (/^<(!doctype|html|svg|\?xml|[a-z]+[ >])/i.test(start)) return "html";
  if (/^[[{]/.test(start)) return "json";
  return /^(#!|import |from \w|def |class |function |const |let |use |package |"""|\/\/|\/\*)/.test(start) ? "text" : "";
}
