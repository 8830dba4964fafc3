/** Files attached to the next message, and the reasons why a file cannot be sent. */
import type { Me } from "../api/client";
import { bytes } from "../app/format";
import { fileNameProblem } from "./fileNameRules";

export interface PendingFile {
  id: number;
  file: File;
  /** Why the file cannot be sent; empty if it can. */
  refusal: string;
}

/** The server's limits for the files of one message. */
export type Limits = Pick<Me, "max_uploads" | "max_upload_bytes" | "refused_suffixes">;

let last = 0;

/** Add files to the list. A file that cannot be sent is listed too, with the reason. */
export function attach(before: PendingFile[], files: Iterable<File>, limits: Limits): PendingFile[] {
  const after = [...before];
  for (const file of files) {
    const sent = after.filter((one) => !one.refusal);
    const total = sent.reduce((sum, one) => sum + one.file.size, 0);
    after.push({ id: ++last, file, refusal: refusalOf(file, sent.length, total, limits) });
  }
  return after;
}

/** Return the reasons of the files whose content cannot be sent, by file. The files are all read before an upload, so that all are marked at once. */
export async function checkContents(files: PendingFile[]): Promise<Map<number, string>> {
  const problems = await Promise.all(files.filter((one) => !one.refusal).map(async (one) => [one.id, await contentProblem(one.file)] as const));
  return new Map(problems.filter(([, problem]) => problem));
}

/** Mark the file that the server's error names as refused, or all files if it names none. */
export function markRefused(pending: PendingFile[], code: string, message: string): PendingFile[] {
  const named = pending.filter((one) => message.includes(one.file.name.slice(0, 40)));
  const reason = REASONS[code] ?? message;
  return pending.map((one) => (named.length === 0 || named.includes(one) ? { ...one, refusal: one.refusal || reason } : one));
}

const NO_TEXT = "This file type is not supported. Attach a text file, for example .txt, .md, .csv or source code.";

const REASONS: Record<string, string> = {
  attachment_type_unavailable: NO_TEXT,
  path_escapes_root: "Rename this file: the server does not accept its name.",
  path_name_unsafe: "Rename this file: the server does not accept its name.",
  path_too_long: "Rename this file: its name is too long.",
  request_too_large: "The upload is too large. Send fewer or smaller files.",
};

function refusalOf(file: File, count: number, total: number, { max_uploads, max_upload_bytes, refused_suffixes }: Limits): string {
  if (file.size === 0) return "This file is empty.";
  const problem = fileNameProblem(file.name);
  if (problem) return problem;
  if (!isTextType(file, refused_suffixes)) return NO_TEXT;
  if (count >= max_uploads) return `A message can have at most ${max_uploads} files.`;
  if (total + file.size > max_upload_bytes) return `The files of a message can have at most ${bytes(max_upload_bytes)} in total.`;
  return "";
}

/** Whether the server accepts the type: the declared one, or that of the name if the browser knows none. */
function isTextType(file: File, refusedSuffixes: string[]): boolean {
  const declared = file.type.split(";")[0]!.trim().toLowerCase();
  if (declared && declared !== "application/octet-stream") return /^text\/[a-z0-9.+-]{1,100}$/.test(declared);
  return !refusedSuffixes.includes(file.name.slice(file.name.lastIndexOf(".") + 1).toLowerCase()) || !file.name.includes(".");
}

/** Return why the content cannot be sent: only text in UTF-8, or with a byte order mark, is accepted. */
function contentProblem(file: File): Promise<string> {
  const known = contents.get(file) ?? checkContent(file);
  contents.set(file, known);
  return known;
}

const contents = new WeakMap<File, Promise<string>>();

async function checkContent(file: File): Promise<string> {
  try {
    const data = new Uint8Array(await file.arrayBuffer());
    const charset = charsetOf(data);
    return charset && new TextDecoder(charset, { fatal: true }).decode(data).includes("\0") ? NO_TEXT : "";
  } catch (error) {
    return error instanceof TypeError ? NOT_UTF8 : "This file cannot be read. Attach it again.";
  }
}

/** Return the charset by the byte order mark; empty for UTF-32, which browsers cannot decode and the server can. */
function charsetOf([first, second, third, fourth]: Uint8Array): string {
  if ((first === 0xff && second === 0xfe && third === 0 && fourth === 0) || (first === 0 && second === 0 && third === 0xfe && fourth === 0xff)) return "";
  if (first === 0xff && second === 0xfe) return "utf-16le";
  return first === 0xfe && second === 0xff ? "utf-16be" : "utf-8";
}

const NOT_UTF8 = "This file is not UTF-8 text. Save it as UTF-8, or attach another file.";
