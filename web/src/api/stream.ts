/** The event stream of a conversation: resumes after the last known block and reconnects until it is closed. */
import { createParser } from "eventsource-parser";
import { addressOf, ProblemError, problemOf, type StreamEvent } from "./client";

/** A lost connection is retried; a closed one is not. */
export type Connection = "connecting" | "live" | "lost" | "closed";

export interface StreamListener {
  /** Return the seq of the last known block. The server resumes after it. */
  lastSeq: () => number;
  onEvents: (events: StreamEvent[]) => void;
  onConnection: (state: Connection, problem?: ProblemError) => void;
}

const FIRST_WAIT_MS = 300;
const MAX_WAIT_MS = 4000;
/** The server sends a comment every 15 seconds, so a longer silence means that the connection is dead. */
const MAX_SILENCE_MS = 40000;

/** Follow a conversation's stream until the returned function is called. */
export function subscribe(conversation: string, listener: StreamListener): () => void {
  const closing = new AbortController();
  void run(conversation, listener, closing.signal);
  return () => closing.abort();
}

async function run(conversation: string, listener: StreamListener, closed: AbortSignal): Promise<void> {
  let wait = FIRST_WAIT_MS;
  while (!closed.aborted) {
    listener.onConnection("connecting");
    try {
      await read(conversation, listener, closed, () => (wait = FIRST_WAIT_MS));
    } catch (error) {
      if (closed.aborted) return;
      if (error instanceof ProblemError && [401, 403, 404].includes(error.status)) {
        listener.onConnection("closed", error);
        return;
      }
    }
    if (closed.aborted) return;
    listener.onConnection("lost");
    await pause(wait, closed);
    wait = Math.min(wait * 2, MAX_WAIT_MS);
  }
}

async function read(conversation: string, listener: StreamListener, closed: AbortSignal, onOpen: () => void): Promise<void> {
  const attempt = new AbortController();
  const end = () => attempt.abort();
  closed.addEventListener("abort", end);
  window.addEventListener("offline", end);
  let silence = window.setTimeout(end, MAX_SILENCE_MS);
  try {
    const response = await fetch(addressOf("get_stream", { conversation_id: conversation }), {
      headers: { accept: "text/event-stream", "last-event-id": String(listener.lastSeq()) },
      credentials: "same-origin",
      signal: attempt.signal,
    });
    if (!response.ok || !response.body) throw await problemOf(response);
    listener.onConnection("live");
    onOpen();
    let found: StreamEvent[] = [];
    const parser = createParser({ onEvent: ({ event = "message", data }) => found.push({ event, data: JSON.parse(data) as unknown } as StreamEvent) });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      window.clearTimeout(silence);
      silence = window.setTimeout(end, MAX_SILENCE_MS);
      parser.feed(value);
      if (!found.length) continue;
      // All events of a chunk at once, so that they are drawn together.
      const events = found;
      found = [];
      listener.onEvents(events);
    }
  } finally {
    window.clearTimeout(silence);
    closed.removeEventListener("abort", end);
    window.removeEventListener("offline", end);
    attempt.abort();
  }
}

/** Wait for the given time, but stop waiting when the network is back or `closed` is aborted. */
export function pause(ms: number, closed: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const resume = () => {
      window.clearTimeout(timer);
      window.removeEventListener("online", resume);
      closed.removeEventListener("abort", resume);
      resolve();
    };
    const timer = window.setTimeout(resume, ms);
    window.addEventListener("online", resume);
    closed.addEventListener("abort", resume);
  });
}
