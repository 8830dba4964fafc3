/** A reply that the user interrupted: the text until then, and a line that marks its end. */
import { CodeBlock } from "../markdown/CodeBlock";
import { Markdown } from "../markdown/Markdown";
import type { InterruptedReply } from "../timeline/model";
import { ThinkingView } from "./ThinkingView";

export function InterruptedReplyView({ reply }: { reply: InterruptedReply }) {
  return (
    <>
      <ThinkingView text={reply.thinking} ms={0} />
      {reply.notes && <div className="notes"><Markdown text={reply.notes} /></div>}
      {reply.code && <CodeBlock code={reply.code} language="python" />}
      {reply.answer && <article className="answer" aria-label="Unfinished answer"><Markdown text={reply.answer} /></article>}
      <div className="event-line"><span>{reply.reason === "steered" ? "Steered here" : "Stopped here"}</span></div>
    </>
  );
}
