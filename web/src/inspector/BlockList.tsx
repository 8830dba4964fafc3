/** The list of all blocks. It is virtualized: only the visible rows are rendered. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState, type KeyboardEvent } from "react";
import { bytes, count } from "../app/format";
import type { Block } from "../timeline/blocks";
import { sizeOf } from "./tokens";

const ROW_PX = 32;
const PAGE_ROWS = 10;

interface Props {
  blocks: Block[];
  /** The number of blocks. It changes with every block, while `blocks` is updated in place. */
  tail: number;
  chosen: number;
  choose: (seq: number) => void;
}

export function BlockList({ blocks, tail, chosen, choose }: Props) {
  const [filter, setFilter] = useState("");
  const seqs = useMemo(() => matching(blocks, filter), [blocks, tail, filter]);
  const box = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({ count: seqs.length, getScrollElement: () => box.current, estimateSize: () => ROW_PX, overscan: 12 });
  const at = seqs.indexOf(chosen);
  useEffect(() => {
    if (at >= 0) rows.scrollToIndex(at, { align: "auto" });
  }, [chosen]);

  const onKey = (event: KeyboardEvent) => {
    const to = STEPS[event.key]?.(at, seqs.length);
    if (to === undefined || !seqs.length) return;
    event.preventDefault();
    choose(seqs[Math.min(Math.max(to, 0), seqs.length - 1)]!);
  };

  return (
    <>
      <div className="blocks-find">
        <label className="sr" htmlFor="blocks-find">Filter blocks</label>
        <input id="blocks-find" type="search" placeholder="Filter by type, path or text" value={filter} onChange={(event) => setFilter(event.target.value)} />
        <span className="dim">{seqs.length === tail ? count(tail) : `${count(seqs.length)} of ${count(tail)}`} blocks</span>
      </div>
      <div className="blocks-head" aria-hidden="true"><span>#</span><span>Type and path</span><span>Size</span><span>Tokens</span></div>
      <div className="blocks" ref={box} role="listbox" tabIndex={0} aria-label="Blocks" aria-activedescendant={at >= 0 ? `block-${chosen}` : undefined} onKeyDown={onKey}>
        <div className="blocks-all" role="presentation" style={{ height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map((row) => {
            const seq = seqs[row.index]!;
            return <Row key={seq} seq={seq} block={blocks[seq - 1]!} top={row.start} position={row.index + 1} of={seqs.length} chosen={seq === chosen} choose={choose} />;
          })}
        </div>
      </div>
    </>
  );
}

const STEPS: Record<string, (at: number, all: number) => number> = {
  ArrowDown: (at) => at + 1,
  ArrowUp: (at) => at - 1,
  PageDown: (at) => at + PAGE_ROWS,
  PageUp: (at) => at - PAGE_ROWS,
  Home: () => 0,
  End: (_, all) => all - 1,
};

interface RowProps {
  seq: number;
  block: Block;
  top: number;
  position: number;
  of: number;
  chosen: boolean;
  choose: (seq: number) => void;
}

function Row({ seq, block, top, position, of, chosen, choose }: RowProps) {
  const { bytes: size, tokens } = sizeOf(block);
  return (
    <div
      id={`block-${seq}`}
      role="option"
      aria-selected={chosen}
      aria-setsize={of}
      aria-posinset={position}
      className={`block block-${familyOf(block.type)}`}
      style={{ transform: `translateY(${top}px)` }}
      onClick={() => choose(seq)}
    >
      <span className="block-seq">{seq}</span>
      <span className="block-what"><b>{block.type}</b> <span className="block-path">{block.path ? withoutTurn(block) : ""}</span></span>
      <span className="block-size">{size ? bytes(size) : ""}</span>
      <span className="block-tokens">{tokens ? count(tokens) : ""}</span>
    </div>
  );
}

const REDUCES_CONTEXT = new Set(["react.hidden", "react.pruned", "conv.range.summary", "conv.erased"]);
const BOUNDARIES = new Set(["turn.header", "react.turn.end", "react.round.start"]);

/** Return the family of a block type, which sets the colour of its row. */
function familyOf(type: string): string {
  if (type.startsWith("user.") || type === "external.event") return "user";
  if (type.startsWith("react.tool") || type === "react.notice") return "tool";
  if (type.startsWith("react.model")) return "model";
  if (type === "assistant.completion") return "answer";
  if (REDUCES_CONTEXT.has(type)) return "reduced";
  return BOUNDARIES.has(type) ? "boundary" : "other";
}

function withoutTurn({ path = "", turn_id = "" }: Block): string {
  return turn_id ? path.replace(`${turn_id}.`, "") : path;
}

function matching(blocks: Block[], filter: string): number[] {
  const wanted = filter.trim().toLowerCase();
  const seqs: number[] = [];
  blocks.forEach((block, at) => {
    if (!wanted || block.type.includes(wanted) || block.path?.toLowerCase().includes(wanted) || block.text?.toLowerCase().includes(wanted)) seqs.push(at + 1);
  });
  return seqs;
}
