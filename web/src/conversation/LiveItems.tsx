/** Text that the model is writing, and below it the messages that it has not seen yet. */
import { useAppStore } from "../app/appStore";
import { streamTimings } from "../app/liveConversation";
import { CodeBlock } from "../markdown/CodeBlock";
import { Markdown } from "../markdown/Markdown";
import { firstUnseenIndex, nameOf } from "../timeline/fold";
import { Clock } from "./CallCard";
import { ChatText } from "./ChatText";
import { MessageView } from "./MessageView";
import { ThinkingView } from "./ThinkingView";
import { withoutStepMarkers } from "./TurnView";
import { ChannelView } from "../widgets/ChannelView";

export function LiveItems() {
  const open = useAppStore((state) => state.open)!;
  const { channels, files, texts, since } = open.live;
  const state = open.status?.state;
  const running = state === "running";
  const notes = withoutStepMarkers(channels["timeline_text"] ?? "");
  const hasMore = files.length > 0 || texts.length > 0 || Object.keys(channels).some((channel) => channel !== "thinking");
  const draft = files.findLast((file) => file.channel === "canvas");
  const turn = open.timeline.turns.at(-1);
  const unseen = turn && !turn.reason ? turn.items.slice(firstUnseenIndex(turn.items)).filter((item) => item.kind === "message") : [];
  return (
    <div className="live">
      {channels["thinking"] && <ThinkingView text={channels["thinking"]} ms={hasMore ? streamTimings(open.live).thinkingMs : 0} live={running && !hasMore} />}
      {notes && <div className="notes"><Markdown text={notes} growing /></div>}
      {channels["code"] && <CodeBlock code={channels["code"]} language="python" growing />}
      {draft && running && (
        <div className="writing"><span className="shimmer">Writing {draft.path ? nameOf(draft.path) : "a file"}…</span> <span className="dim">{draft.text.length.toLocaleString("en")} characters</span></div>
      )}
      {files.filter((file) => file.channel !== "canvas").map((file) => (
        <ChatText key={`${file.index} ${file.path}`} path={file.path} mime={file.mime} text={file.text} growing />
      ))}
      {texts.map(({ channel, index, text }) => {
        const declared = turn?.channels.find((one) => one.name === channel);
        return <ChannelView key={`${channel} ${index}`} channel={channel} mime={declared?.mime ?? ""} widget={declared?.widget ?? ""} text={text} growing />;
      })}
      {channels["answer"] && <article className="answer growing" aria-label="Answer in progress"><Markdown text={channels["answer"]} growing /></article>}
      {open.compacting && <div className="event-line"><span className="shimmer">Summarizing earlier messages…</span></div>}
      {running && !channels["answer"] && (
        <div className="working" role="status"><span className="pulse" aria-hidden="true" /> Working{since["thinking"] && channels["thinking"] && !hasMore ? <> · <Clock since={since["thinking"]} /></> : null}</div>
      )}
      {state === "waiting" && <div className="working" role="status">{open.mayDecide ? "Waiting for your approval" : "Waiting for an approver"}</div>}
      {turn && unseen.map((message) => <MessageView key={message.seq} message={message} turn={turn} />)}
      {open.sending.map((one, at) => (
        <div key={at} className="message sending"><div className="bubble" dir="auto">{one.text}</div><div className="seen">Sending…</div></div>
      ))}
    </div>
  );
}
