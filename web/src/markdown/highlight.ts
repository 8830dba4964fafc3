/** Syntax highlighting in a worker, so that neither hostile nor long code stops the page. */
import type { Language } from "./languages";

export interface HighlightedText {
  text: string;
  kind: string;
}

export interface HighlightRequest {
  id: number;
  code: string;
  language: Language;
}

export interface HighlightReply {
  id: number;
  lines: HighlightedText[][] | null;
}

/** Longer code is not highlighted, because it would take too long. */
const MAX_CHARS = 60000;
/** Code that takes longer stays plain. A much shorter time leaves honest code plain on a busy machine. */
const MAX_MS = 20000;

interface Job {
  request: HighlightRequest;
  done: (lines: HighlightedText[][] | null) => void;
}

let worker: Worker | null = null;
let lastId = 0;
/** The jobs in order; the worker has only the first. */
let jobs: Job[] = [];
let timer = 0;

/** Return the tokens of each line, or null if the code stays plain. */
export function highlight(code: string, language: Language): Promise<HighlightedText[][] | null> {
  if (code.length > MAX_CHARS) return Promise.resolve(null);
  return new Promise((done) => {
    jobs.push({ request: { id: ++lastId, code, language }, done });
    if (jobs.length === 1) startJob();
  });
}

function startJob(): void {
  const [job] = jobs;
  if (!job) return;
  worker ??= openWorker();
  timer = window.setTimeout(() => endJob(null, true), MAX_MS);
  worker.postMessage(job.request);
}

function openWorker(): Worker {
  const opened = new Worker(new URL("./highlight.worker.ts", import.meta.url), { type: "module" });
  opened.onmessage = ({ data }: MessageEvent<HighlightReply>) => data.id === jobs[0]?.request.id && endJob(data.lines);
  opened.onerror = () => endJob(null, true);
  return opened;
}

function endJob(lines: HighlightedText[][] | null, isBroken = false): void {
  window.clearTimeout(timer);
  if (isBroken) {
    worker?.terminate();
    worker = null;
  }
  const [job, ...rest] = jobs;
  jobs = rest;
  job?.done(lines);
  startJob();
}
