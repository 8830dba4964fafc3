/** A turn: what was asked, what was done, what was answered, and how it ended. */
import { memo } from "react";
import type { Item, Turn } from "../timeline/model";
import { CallCard } from "./CallCard";
import { CutView } from "./CutView";
import { MarkLine } from "./MarkLine";
import { Markdown } from "../markdown/Markdown";
import { MessageView } from "./MessageView";
import { PlanView } from "./PlanView";
import { ThinkingView } from "./ThinkingView";
import { TurnEnd } from "./TurnEnd";

interface Props {
  turn: Turn;
  isLast: boolean;
}

export const TurnView = memo(function TurnView({ turn, isLast }: Props) {
  return (
    <section className="turn" aria-label={`Turn ${turn.n}`} data-turn={turn.id} data-over={turn.reason ? "" : undefined}>
      {turn.items.map((item) => (
        <ItemView key={`${item.kind}${item.seq}`} item={item} turn={turn} />
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
    case "cut":
      return <CutView cut={item} />;
    case "notes":
      return withoutMarks(item.text) ? <div className="notes"><Markdown text={withoutMarks(item.text)} /></div> : null;
    case "call":
      return <CallCard call={item} running={!turn.reason} />;
    case "answer":
      return <article className="answer" data-seq={item.seq} aria-label="Answer"><Markdown text={item.text} /></article>;
    case "mark":
      return <MarkLine mark={item} />;
    case "plan":
      return <PlanView plan={item} />;
  }
}, (before, after) => before.item === after.item && before.turn.reason === after.turn.reason);

/** Notes without the lines that mark steps of the plan: the plan itself shows those. */
export function withoutMarks(text: string): string {
  return text.replace(/^[ \t]*(?:[-*+•][ \t]+)?(?:[✓✔✅☑✗✘❌✖…□☐]|\.\.\.)[ \t]*(?:\[\d{1,2}\]|\d{1,2}[.)](?=\s|$)).*$/gmu, "").trim();
}
