/** Asks the user to allow or refuse a call. */
import { type ReactNode, useState } from "react";
import { call as callApi } from "../api/client";
import { errorMessage, showToast, useAppStore } from "../app/appStore";
import { CodeBlock } from "../markdown/CodeBlock";
import { objectOf } from "../timeline/blocks";
import type { Call } from "../timeline/model";
import { focusComposer } from "./draft";
import { Parameters } from "./Parameters";

export function ApprovalBox({ call }: { call: Call }) {
  const conversation = useAppStore((state) => state.open?.id ?? "");
  const mayDecide = useAppStore((state) => state.open?.mayDecide ?? true);
  const [comment, setComment] = useState("");
  const [sent, setSent] = useState(false);
  const decide = (approved: boolean) => {
    setSent(true);
    // The buttons disappear with the decision, so the focus needs a new place.
    focusComposer();
    callApi("post_approval", { conversation_id: conversation, call_id: call.id, body: { approved, text: comment } }).catch((error: unknown) => {
      setSent(false);
      showToast(errorMessage(error));
    });
  };
  return (
    <div className="approval" role="group" aria-labelledby={`question-${call.id}`}>
      <p id={`question-${call.id}`}>
        <strong>{questionOf(call)}</strong> {call.approval?.text}
      </p>
      {call.code && <CodeBlock code={call.code} language="python" />}
      <Parameters params={objectOf(call.params)} />
      {mayDecide ? (
        <>
          <label className="sr" htmlFor={`comment-${call.id}`}>Note to the agent</label>
          <input id={`comment-${call.id}`} placeholder="Note to the agent (optional)" value={comment} onChange={(event) => setComment(event.target.value)} />
          <div className="row">
            <button type="button" className="primary" disabled={sent} onClick={() => decide(true)}>Allow</button>
            <button type="button" disabled={sent} onClick={() => decide(false)}>Refuse</button>
          </div>
        </>
      ) : (
        <p className="dim">Only approvers and admins of this project can decide. You can steer the agent or stop the turn.</p>
      )}
    </div>
  );
}

function questionOf(call: Call): ReactNode {
  if (call.code) return "May the agent run this program?";
  if (call.toolId === "model") return "May the agent call the model?";
  return <>May the agent call <code>{call.toolId}</code>?</>;
}
