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
export type Limits = Pick<Me, "max_uploads" | "max_upload_bytes">;

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

/** Mark the file that the server's error names as refused, or all files if it names none. */
export function markRefused(pending: PendingFile[], code: string, message: string): PendingFile[] {
  const named = pending.filter((one) => message.includes(one.file.name.slice(0, 40)));
  const reason = REASONS[code] ?? message;
  return pending.map((one) => (named.length === 0 || named.includes(one) ? { ...one, refusal: one.refusal || reason } : one));
}

const REASONS: Record<string, string> = {
  attachment_type_unavailable: "This file type is not supported. Attach a text file, for example .txt, .md, .csv, .json or source code.",
  path_escapes_root: "Rename this file: the server does not accept its name.",
  path_name_unsafe: "Rename this file: the server does not accept its name.",
  path_too_long: "Rename this file: its name is too long.",
  request_too_large: "The upload is too large. Send fewer or smaller files.",
};

function refusalOf(file: File, count: number, total: number, { max_uploads, max_upload_bytes }: Limits): string {
  if (file.size === 0) return "This file is empty.";
  const problem = fileNameProblem(file.name);
  if (problem) return problem;
  if (count >= max_uploads) return `A message can have at most ${max_uploads} files.`;
  if (total + file.size > max_upload_bytes) return `The files of a message can have at most ${bytes(max_upload_bytes)} in total.`;
  return "";
}
