/** A reply that was broken off: what was written until then, and that it ends there. */
import { CodeBlock } from "../markdown/CodeBlock";
import { Markdown } from "../markdown/Markdown";
import type { Cut } from "../timeline/model";
import { ThinkingView } from "./ThinkingView";

export function CutView({ cut }: { cut: Cut }) {
  return (
    <>
      <ThinkingView text={cut.thinking} ms={0} />
      {cut.notes && <div className="notes"><Markdown text={cut.notes} /></div>}
      {cut.code && <CodeBlock code={cut.code} language="python" />}
      {cut.answer && <article className="answer" aria-label="Unfinished answer"><Markdown text={cut.answer} /></article>}
      <div className="mark"><span>{cut.how === "steered" ? "Steered here" : "Stopped here"}</span></div>
    </>
  );
}
