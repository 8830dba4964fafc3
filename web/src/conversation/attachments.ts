/** Files that wait to be sent, and why one of them cannot be. */
import type { Me } from "../api/client";
import { bytes } from "../app/format";
import { nameRefusal } from "./names";

export interface Waiting {
  id: number;
  file: File;
  refusal: string;
}

/** How many files the server takes with a message, and how much of them. */
export type Limits = Pick<Me, "max_uploads" | "max_upload_bytes">;

let last = 0;

/** Takes files in; those that no server takes are kept with the reason, so that nobody wonders where they went. */
export function attach(before: Waiting[], files: Iterable<File>, limits: Limits): Waiting[] {
  const after = [...before];
  for (const file of files) {
    const sent = after.filter((one) => !one.refusal);
    const total = sent.reduce((sum, one) => sum + one.file.size, 0);
    after.push({ id: ++last, file, refusal: refusalOf(file, sent.length, total, limits) });
  }
  return after;
}

/** Marks the file that the server named in its refusal; all of them where it named none. */
export function refuse(waiting: Waiting[], code: string, words: string): Waiting[] {
  const named = waiting.filter((one) => words.includes(one.file.name.slice(0, 40)));
  const why = PLAIN[code] ?? words;
  return waiting.map((one) => (named.length === 0 || named.includes(one) ? { ...one, refusal: one.refusal || why } : one));
}

const PLAIN: Record<string, string> = {
  attachment_type_unavailable: "This kind of file cannot be read yet. Text files can: .txt, .md, .csv, .json, source code.",
  path_escapes_root: "Rename it: the server does not take this name.",
  path_name_unsafe: "Rename it: the server does not take this name.",
  path_too_long: "Rename it: its name is too long.",
  request_too_large: "This is more than the server takes at once. Send less, or a smaller file.",
};

function refusalOf(file: File, count: number, total: number, { max_uploads, max_upload_bytes }: Limits): string {
  if (file.size === 0) return "This file is empty.";
  const wrong = nameRefusal(file.name);
  if (wrong) return wrong;
  if (count >= max_uploads) return `At most ${max_uploads} files can go with a message.`;
  if (total + file.size > max_upload_bytes) return `All files of a message together have at most ${bytes(max_upload_bytes)}.`;
  return "";
}
