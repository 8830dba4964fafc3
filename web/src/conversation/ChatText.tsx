/** A file that the agent wrote into the chat (`timeline_text`), shown there with its text. */
import { languageOfFile } from "../canvas/FileView";
import { CodeBlock } from "../markdown/CodeBlock";
import { Markdown } from "../markdown/Markdown";
import { nameOf } from "../timeline/fold";

interface Props {
  path: string;
  mime: string;
  text: string;
  growing?: boolean;
}

export function ChatText({ path, mime, text, growing = false }: Props) {
  return (
    <div className="chat-text" role="group" aria-label={nameOf(path)}>
      {mime === "text/markdown" || mime === "text/plain" ? <Markdown text={text} growing={growing} /> : <CodeBlock code={text} language={languageOfFile(path, mime)} growing={growing} />}
    </div>
  );
}
