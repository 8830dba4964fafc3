/** One block: all that is stored of it. */
import { bytes, clock, count } from "../app/format";
import { Icon } from "../app/Icon";
import { CodeBlock, CopyButton } from "../markdown/CodeBlock";
import type { Block } from "../timeline/blocks";
import { ForkButton } from "./ForkButton";
import { weightOf } from "./tokens";

/** More of a text than this is copied, not shown. */
const MOST_CHARACTERS = 200_000;

interface Props {
  seq: number;
  block: Block;
  close: () => void;
  /** Shows the prompt, where the block is a request. */
  showPrompt: (() => void) | null;
}

export function BlockView({ seq, block, close, showPrompt }: Props) {
  const weight = weightOf(block);
  const text = block.text ?? "";
  return (
    <section className="block-view" aria-label={`Block ${seq}`}>
      <header>
        <h3>{seq} · {block.type}</h3>
        {showPrompt && <button type="button" className="quiet small" onClick={showPrompt}><Icon name="loupe" /> Prompt</button>}
        <ForkButton seq={seq} />
        <button type="button" className="icon" aria-label="Close block" onClick={close}><Icon name="close" /></button>
      </header>
      <dl className="facts">
        <dt>Path</dt><dd><code>{block.path || "none"}</code></dd>
        <dt>By</dt><dd>{block.author}, {clock(block.ts)}</dd>
        {block.turn_id && <><dt>Turn</dt><dd><code>{block.turn_id}</code></dd></>}
        <dt>Weight</dt><dd>{bytes(weight.bytes)}, about {count(weight.tokens)} tokens, {block.mime}</dd>
      </dl>
      {text && (
        <div className="code">
          <div className="code-head"><span>{text.length > MOST_CHARACTERS ? `the first ${count(MOST_CHARACTERS)} characters of ${count(text.length)}` : "text"}</span><CopyButton text={text} /></div>
          <pre tabIndex={0} aria-label="Text of the block">{text.slice(0, MOST_CHARACTERS)}</pre>
        </div>
      )}
      {block.meta && <CodeBlock code={JSON.stringify(block.meta, null, 2)} language="json" />}
    </section>
  );
}
