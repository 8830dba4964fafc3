/** The stream of a conversation: read from the block after the last one that is known, again and again until it is closed. */
import { address, problemOf, ProblemError } from "./client";

export interface StreamEvent {
  event: string;
  data: unknown;
}

/** Lost is tried again; closed is for good. */
export type Connection = "connecting" | "live" | "lost" | "closed";

export interface StreamListener {
  /** The last block that is known: what the server goes on after. */
  after: () => number;
  tell: (events: StreamEvent[]) => void;
  connection: (state: Connection, problem?: ProblemError) => void;
}

const FIRST_WAIT_MS = 300;
const LONGEST_WAIT_MS = 4000;
/** The server sends a comment every 15 seconds; a stream that is silent for longer is dead without anybody having said so. */
const SILENCE_MS = 40000;

export function follow(conversation: string, listener: StreamListener): () => void {
  const closing = new AbortController();
  void run(conversation, listener, closing.signal);
  return () => closing.abort();
}

async function run(conversation: string, listener: StreamListener, closed: AbortSignal): Promise<void> {
  let wait = FIRST_WAIT_MS;
  while (!closed.aborted) {
    listener.connection("connecting");
    try {
      await read(conversation, listener, closed, () => (wait = FIRST_WAIT_MS));
    } catch (error) {
      if (closed.aborted) return;
      if (error instanceof ProblemError && [401, 403, 404].includes(error.status)) {
        listener.connection("closed", error);
        return;
      }
    }
    if (closed.aborted) return;
    listener.connection("lost");
    await pause(wait, closed);
    wait = Math.min(wait * 2, LONGEST_WAIT_MS);
  }
}

async function read(conversation: string, listener: StreamListener, closed: AbortSignal, opened: () => void): Promise<void> {
  const attempt = new AbortController();
  const end = () => attempt.abort();
  closed.addEventListener("abort", end);
  window.addEventListener("offline", end);
  let silence = window.setTimeout(end, SILENCE_MS);
  try {
    const response = await fetch(address("chat", conversation, "stream"), {
      headers: { accept: "text/event-stream", "last-event-id": String(listener.after()) },
      credentials: "same-origin",
      signal: attempt.signal,
    });
    if (!response.ok || !response.body) throw await problemOf(response);
    listener.connection("live");
    opened();
    const parse = parser(listener.tell);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      window.clearTimeout(silence);
      silence = window.setTimeout(end, SILENCE_MS);
      parse(value);
    }
  } finally {
    window.clearTimeout(silence);
    closed.removeEventListener("abort", end);
    window.removeEventListener("offline", end);
    attempt.abort();
  }
}

/** Feeds pieces of a stream; tells whole events, those of one piece together. */
export function parser(tell: (events: StreamEvent[]) => void): (piece: string) => void {
  let rest = "";
  return (piece) => {
    rest += piece;
    const found: StreamEvent[] = [];
    for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
      const lines = rest.slice(0, end).split("\n");
      rest = rest.slice(end + 2);
      let event = "message";
      let data = "";
      for (const line of lines) {
        if (line.startsWith("event: ")) event = line.slice(7);
        else if (line.startsWith("data: ")) data += line.slice(6);
      }
      if (data) found.push({ event, data: JSON.parse(data) as unknown });
    }
    if (found.length) tell(found);
  };
}

/** Waits so long, or until the network is back or it is closed. */
export function pause(ms: number, closed: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const go = () => {
      window.clearTimeout(timer);
      window.removeEventListener("online", go);
      closed.removeEventListener("abort", go);
      resolve();
    };
    const timer = window.setTimeout(go, ms);
    window.addEventListener("online", go);
    closed.addEventListener("abort", go);
  });
}
