/** One block with all of its stored fields. */
import { bytes, clock, count } from "../app/format";
import { Icon } from "../app/Icon";
import { CodeBlock, CopyButton } from "../markdown/CodeBlock";
import type { Block } from "../timeline/blocks";
import { PinButton } from "../conversation/PinButton";
import { ForkButton } from "./ForkButton";
import { sizeOf } from "./tokens";

/** Longer texts are shown in part. The copy button copies all of it. */
const MAX_CHARS = 200_000;

interface Props {
  seq: number;
  block: Block;
  close: () => void;
  /** Opens the prompt; null if the block is not a model call. */
  showPrompt: (() => void) | null;
}

export function BlockView({ seq, block, close, showPrompt }: Props) {
  const size = sizeOf(block);
  const text = block.text ?? "";
  return (
    <section className="block-view" aria-label={`Block ${seq}`}>
      <header>
        <h3>{seq} · {block.type}</h3>
        {showPrompt && <button type="button" className="quiet small" onClick={showPrompt}><Icon name="loupe" /> Prompt</button>}
        <PinButton path={block.path ?? ""} />
        <ForkButton seq={seq} />
        <button type="button" className="icon" aria-label="Close block" onClick={close}><Icon name="close" /></button>
      </header>
      <dl className="facts">
        <dt>Path</dt><dd><code>{block.path || "none"}</code></dd>
        <dt>Author</dt><dd>{block.author}, {clock(block.ts)}</dd>
        {block.turn_id && <><dt>Turn</dt><dd><code>{block.turn_id}</code></dd></>}
        <dt>Size</dt><dd>{bytes(size.bytes)}, about {count(size.tokens)} tokens, {block.mime}</dd>
      </dl>
      {text && (
        <div className="code">
          <div className="code-head"><span>{text.length > MAX_CHARS ? `the first ${count(MAX_CHARS)} characters of ${count(text.length)}` : "text"}</span><CopyButton text={text} /></div>
          <pre tabIndex={0} aria-label="Block text">{text.slice(0, MAX_CHARS)}</pre>
        </div>
      )}
      {block.meta && <CodeBlock code={JSON.stringify(block.meta, null, 2)} language="json" />}
    </section>
  );
}
