/** A turn: messages, thinking, calls, answers and its end. */
import { Fragment, memo } from "react";
import { firstUnseenIndex } from "../timeline/fold";
import type { Item, Turn } from "../timeline/model";
import { AnswerButtons } from "./TurnButtons";
import { CallCard } from "./CallCard";
import { InterruptedReplyView } from "./InterruptedReplyView";
import { EventLine } from "./EventLine";
import { Markdown } from "../markdown/Markdown";
import { MessageView } from "./MessageView";
import { PlanView } from "./PlanView";
import { ThinkingView } from "./ThinkingView";
import { TurnEnd } from "./TurnEnd";
import { ChannelView } from "../widgets/ChannelView";

interface Props {
  turn: Turn;
  isLast: boolean;
}

export const TurnView = memo(function TurnView({ turn, isLast }: Props) {
  // The messages that the agent has not seen stay below the text that it is writing.
  const items = turn.reason ? turn.items : turn.items.slice(0, firstUnseenIndex(turn.items));
  return (
    <section className="turn" aria-label={`Turn ${turn.n}`} data-turn={turn.id} data-over={turn.reason ? "" : undefined}>
      {items.map((item) => (
        <Fragment key={`${item.kind}${item.seq}`}>
          <ItemView item={item} turn={turn} />
          {item.kind === "answer" && !(turn.reason && item === items.at(-1)) && <div className="turn-foot"><AnswerButtons answer={item} turn={turn} /></div>}
        </Fragment>
      ))}
      {turn.reason && <TurnEnd turn={turn} isLast={isLast} />}
    </section>
  );
});

const ItemView = memo(function ItemView({ item, turn }: { item: Item; turn: Turn }) {
  switch (item.kind) {
    case "message":
      return <MessageView message={item} turn={turn} />;
    case "thinking":
      return <ThinkingView text={item.text} ms={item.ms} />;
    case "interrupted":
      return <InterruptedReplyView reply={item} />;
    case "notes":
      return withoutStepMarkers(item.text) ? <div className="notes"><Markdown text={withoutStepMarkers(item.text)} /></div> : null;
    case "call":
      return <CallCard call={item} running={!turn.reason} />;
    case "answer":
      return (
        <>
          <article className="answer" data-seq={item.seq} aria-label="Answer"><Markdown text={item.text} /></article>
          {item.isUnformatted && <p className="dim small" role="note">The model did not keep to the reply format. This is its plain text.</p>}
        </>
      );
    case "channel":
      return <ChannelView channel={item.channel} mime={item.mime} widget={item.widget} text={item.text} cut={item.cut} />;
    case "event":
      return <EventLine event={item} />;
    case "plan":
      return <PlanView plan={item} />;
  }
}, (before, after) => before.item === after.item && before.turn.reason === after.turn.reason);

/** Remove the lines that mark plan steps as done or failed, because the plan shows them. */
export function withoutStepMarkers(text: string): string {
  return text.replace(/^[ \t]*(?:[-*+•][ \t]+)?(?:[✓✔✅☑✗✘❌✖…□☐]|\.\.\.)[ \t]*(?:\[\d{1,2}\]|\d{1,2}[.)](?=\s|$)).*$/gmu, "").trim();
}
