/** Size of a block in tokens and bytes. The token estimate must match the server's (`timeloom.core.tokens`). */
import { asNumber, type Block, isObject, meta } from "../timeline/blocks";

const LETTER = 229;
const CHANGE = 893;
const NUMBER = 964;
const PUNCTUATION = 861;
const SPACES = 1843;
const GAPS = /\n[ \t\n\r\f\v]*| [ \t]+|\t[ \t]+/g;
const MARKS = new Set("!\"#$%&'()*+,-./:;<=>?@[\\]^`{|}~");

/** The first code point of each range of scripts and the weight of its characters, from high to low. */
const SCRIPTS: [number, number][] = [
  [0x10000, 2000], [0xf900, 922], [0xac00, 739], [0x3100, 922], [0x3040, 673], [0x3000, 922], [0x2000, 900],
  [0x1e00, 932], [0x900, 400], [0x530, 388], [0x370, 371], [0x80, 932],
];

export function estimate(text: string): number {
  if (!text) return 0;
  let weight = SPACES * (text.match(GAPS)?.length ?? 0);
  let older = ".";
  let old = ".";
  let digits = 0;
  let isMarked = false;
  for (const one of text) {
    const code = one.codePointAt(0)!;
    const kind = kindOf(code);
    if (kind === "U" || kind === "l") weight += LETTER;
    if (kind !== old && older !== "." && (old === "d" ? kind !== "." : old === "U" && kind !== ".")) weight += CHANGE;
    if (kind === "d") {
      if (digits % 3 === 0) weight += NUMBER;
      digits += 1;
    } else digits = 0;
    const marked = MARKS.has(one);
    if (marked && !isMarked) weight += PUNCTUATION;
    isMarked = marked;
    if (code >= 0x80) weight += SCRIPTS.find(([begin]) => code >= begin)![1];
    older = old;
    old = kind;
  }
  return Math.max(1, Math.floor(weight / 1000));
}

function kindOf(code: number): "U" | "l" | "d" | "." {
  if (code >= 0x61 && code <= 0x7a) return "l";
  if (code >= 0x41 && code <= 0x5a) return "U";
  return code >= 0x30 && code <= 0x39 ? "d" : ".";
}

export interface BlockSize {
  bytes: number;
  tokens: number;
}

const known = new WeakMap<Block, BlockSize>();

/** Return the size of a block. A model call has the size of its whole prompt. */
export function sizeOf(block: Block): BlockSize {
  let size = known.get(block);
  if (!size) {
    size = measure(block);
    known.set(block, size);
  }
  return size;
}

function measure(block: Block): BlockSize {
  const digest = meta(block, "digest");
  const described = isObject(digest) ? digest : {};
  const stored = block.base64 ? Math.floor((block.base64.length * 3) / 4) : 0;
  const blobs = meta(block, "blobs");
  const blobBytes = isObject(blobs) ? Object.values(blobs).reduce<number>((sum, one) => sum + (isObject(one) ? asNumber(one["size_bytes"]) : 0), 0) : 0;
  const tail = typeof meta(block, "tail") === "string" ? (meta(block, "tail") as string) : "";
  const bytes = block.text === undefined && !tail ? stored || blobBytes || asNumber(described["size_bytes"]) : new Blob([block.text ?? "", tail]).size + blobBytes;
  const tokens = block.type === "react.model.call" ? asNumber(meta(block, "estimated_tokens")) : block.text === undefined ? asNumber(described["tokens"]) : estimate(block.text);
  return { bytes, tokens };
}
