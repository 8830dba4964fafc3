/** Text that the model is writing and messages that are being sent: content that no stored block has yet. */
import { useAppStore } from "../app/appStore";
import { streamTimings } from "../app/liveConversation";
import { CodeBlock } from "../markdown/CodeBlock";
import { Markdown } from "../markdown/Markdown";
import { Clock } from "./CallCard";
import { ThinkingView } from "./ThinkingView";
import { withoutStepMarkers } from "./TurnView";

export function LiveItems() {
  const open = useAppStore((state) => state.open)!;
  const { channels, since } = open.live;
  const state = open.status?.state;
  const running = state === "running";
  const notes = withoutStepMarkers(channels["timeline_text"] ?? "");
  const hasMore = Object.keys(channels).some((channel) => channel !== "thinking");
  return (
    <div className="live">
      {channels["thinking"] && <ThinkingView text={channels["thinking"]} ms={hasMore ? streamTimings(open.live).thinkingMs : 0} live={!hasMore} />}
      {notes && <div className="notes"><Markdown text={notes} growing /></div>}
      {channels["code"] && <CodeBlock code={channels["code"]} language="python" growing />}
      {channels["canvas"] && (
        <div className="writing"><span className="shimmer">Writing a file…</span> <span className="dim">{channels["canvas"].length.toLocaleString("en")} characters</span></div>
      )}
      {channels["answer"] && <article className="answer growing" aria-label="Answer in progress"><Markdown text={channels["answer"]} growing /></article>}
      {open.sending.map((one, at) => (
        <div key={at} className="message sending"><div className="bubble">{one.text}</div><div className="seen">Sending…</div></div>
      ))}
      {open.compacting && <div className="event-line"><span className="shimmer">Summarizing earlier messages…</span></div>}
      {running && !channels["answer"] && (
        <div className="working" role="status"><span className="pulse" aria-hidden="true" /> Working{since["thinking"] && channels["thinking"] && !hasMore ? <> · <Clock since={since["thinking"]} /></> : null}</div>
      )}
      {state === "waiting" && <div className="working" role="status">Waiting for your approval</div>}
    </div>
  );
}
