/** Tokens and bytes of a block: the server's own estimate (`timeloom.core.tokens`), made again here. */
import { type Block, figure, isObject, meta } from "../timeline/blocks";

const LETTER = 229;
const CHANGE = 893;
const NUMBER = 964;
const PUNCTUATION = 861;
const SPACES = 1843;
const GAPS = /\n[ \t\n\r\f\v]*| [ \t]+|\t[ \t]+/g;
const MARKS = new Set("!\"#$%&'()*+,-./:;<=>?@[\\]^`{|}~");

/** Where a script begins, and what a character of it weighs; the last one that begins before a character counts. */
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

export interface Weight {
  bytes: number;
  tokens: number;
}

const known = new WeakMap<Block, Weight>();

/** What a block weighs; a request to a model weighs all that was sent. */
export function weightOf(block: Block): Weight {
  let weight = known.get(block);
  if (!weight) {
    weight = weigh(block);
    known.set(block, weight);
  }
  return weight;
}

function weigh(block: Block): Weight {
  const digest = meta(block, "digest");
  const told = isObject(digest) ? digest : {};
  const stored = block.base64 ? Math.floor((block.base64.length * 3) / 4) : 0;
  const blobs = meta(block, "blobs");
  const elsewhere = isObject(blobs) ? Object.values(blobs).reduce<number>((sum, one) => sum + (isObject(one) ? figure(one["size_bytes"]) : 0), 0) : 0;
  const tail = typeof meta(block, "tail") === "string" ? (meta(block, "tail") as string) : "";
  const bytes = block.text === undefined && !tail ? stored || elsewhere || figure(told["size_bytes"]) : new Blob([block.text ?? "", tail]).size + elsewhere;
  const tokens = block.type === "react.model.call" ? figure(meta(block, "estimated_tokens")) : block.text === undefined ? figure(told["tokens"]) : estimate(block.text);
  return { bytes, tokens };
}
