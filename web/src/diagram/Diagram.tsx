/** A diagram as an image, or its text if the user asks for it or the text cannot be drawn. An image runs no scripts and loads nothing. */
import { memo, useEffect, useState } from "react";
import { useDark } from "../app/theme";
import { CodeBlock, CopyButton } from "../markdown/CodeBlock";
import { draw } from "./draw";

export const Diagram = memo(function Diagram({ code }: { code: string }) {
  const [picture, setPicture] = usePicture(code, useDark());
  const [asText, setAsText] = useState(false);
  if (!picture) return <CodeBlock code={code} language="mermaid" button={picture === "" ? <span>could not be drawn</span> : null} />;
  if (asText) return <CodeBlock code={code} language="mermaid" button={<button type="button" className="quiet small" onClick={() => setAsText(false)}>Diagram</button>} />;
  return (
    <div className="code">
      <div className="code-head">
        <span>diagram</span>
        <span className="code-buttons">
          <button type="button" className="quiet small" onClick={() => setAsText(true)}>Source</button>
          <CopyButton text={code} />
        </span>
      </div>
      <div className="diagram" tabIndex={0} role="group" aria-label="Diagram">
        <img src={picture} alt={altText(code)} onError={() => setPicture("")} />
      </div>
    </div>
  );
});

/** Return the URL of the image: null while it is being drawn, empty if it cannot be drawn. */
function usePicture(code: string, dark: boolean): [string | null, (address: string) => void] {
  const [picture, setPicture] = useState<string | null>(null);
  useEffect(() => {
    let isActive = true;
    let address = "";
    void draw(code, dark).then((svg) => {
      if (!isActive) return;
      address = svg && URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
      setPicture(address);
    });
    return () => {
      isActive = false;
      URL.revokeObjectURL(address);
    };
  }, [code, dark]);
  return [picture, setPicture];
}

/** Return the diagram's kind with its title and description. */
function altText(code: string): string {
  const titles = [/^\s*accTitle\s*:\s*(.+)$/m, /^\s*(?:pie(?:\s+showData)?\s+)?title\s*:?\s+(.+)$/m, /^\s*accDescr\s*:\s*(.+)$/m].map((one) => one.exec(code)?.[1]);
  const kind = /^\s*([a-z]+(?:Diagram|Chart|chart)?)\b/im.exec(code.replace(/^---\n[\s\S]*?\n---\n|%%.*$/gm, ""))?.[1] ?? "";
  return [`Diagram (${kind})`, ...new Set(titles.filter(Boolean))].join(": ").slice(0, 500);
}
