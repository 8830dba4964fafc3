/** Buttons below an answer: copy and feedback. The feedback belongs to the turn. */
import { useState } from "react";
import { call, type Reaction } from "../api/client";
import { Icon } from "../app/Icon";
import { errorMessage, showToast, useAppStore } from "../app/appStore";
import { textForClipboard } from "../markdown/clipboard";
import { CopyButton } from "../markdown/CodeBlock";
import type { Answer, Turn } from "../timeline/model";
import { fork } from "./fork";
import { PinButton } from "./PinButton";

export function AnswerButtons({ answer, turn }: { answer: Answer; turn: Turn }) {
  return (
    <>
      <CopyButton text={() => textForClipboard(answer.text, useAppStore.getState().open?.timeline.sources ?? new Map())} />
      <FeedbackButtons turn={turn} answer={answer} />
      <PinButton path={answer.path} />
    </>
  );
}

export function ForkButton({ turn }: { turn: Turn }) {
  const mayWrite = useAppStore((state) => state.open?.mayWrite ?? true);
  if (!mayWrite) return null;
  return <button type="button" className="quiet small" onClick={() => void fork({ turn: turn.id })}><Icon name="fork" /> Fork here</button>;
}

export function FeedbackButtons({ turn, answer }: { turn: Turn; answer?: Answer }) {
  const mayWrite = useAppStore((state) => state.open?.mayWrite ?? true);
  const field = `comment-${turn.id}-${answer?.seq ?? 0}`;
  const conversation = useAppStore((state) => state.open?.id ?? "");
  const [commenting, setCommenting] = useState(false);
  const [comment, setComment] = useState(turn.reactionText);
  const react = (reaction: Reaction | null, text: string) =>
    call("post_feedback", { conversation_id: conversation, turn_id: turn.id, body: { reaction, text } }).catch((error: unknown) => showToast(errorMessage(error)));
  const press = (reaction: Reaction) => {
    const again = turn.reaction === reaction;
    setCommenting(!again);
    void react(again ? null : reaction, again ? "" : comment);
  };
  if (!mayWrite) return null;
  return (
    <>
      <button type="button" className="icon" aria-label="Good answer" aria-pressed={turn.reaction === "ok"} onClick={() => press("ok")}><Icon name="up" /></button>
      <button type="button" className="icon" aria-label="Bad answer" aria-pressed={turn.reaction === "not_ok"} onClick={() => press("not_ok")}><Icon name="thumbsdown" /></button>
      {commenting && turn.reaction && (
        <form
          className="feedback-box"
          onSubmit={(event) => {
            event.preventDefault();
            void react(turn.reaction || null, comment).then(() => setCommenting(false));
          }}
        >
          <label htmlFor={field}>What was {turn.reaction === "ok" ? "good" : "wrong"}?</label>
          <textarea id={field} dir="auto" rows={2} value={comment} onChange={(event) => setComment(event.target.value)} />
          <div className="row">
            <button type="submit" className="primary">Send</button>
            <button type="button" onClick={() => setCommenting(false)}>Skip comment</button>
          </div>
        </form>
      )}
      {!commenting && turn.reactionText && <span className="dim feedback-comment">“{turn.reactionText}”</span>}
    </>
  );
}
