/** A question to a person: may this call be made? */
import { useState } from "react";
import { address, post } from "../api/client";
import { tellUser, usePage, wordsOf } from "../app/store";
import { CodeBlock } from "../markdown/CodeBlock";
import type { Call } from "../timeline/model";

export function ApprovalBox({ call }: { call: Call }) {
  const conversation = usePage((state) => state.open?.id ?? "");
  const [words, setWords] = useState("");
  const [sent, setSent] = useState(false);
  const decide = (approved: boolean) => {
    setSent(true);
    post(address("conversations", conversation, "approvals", call.id), { approved, text: words }).catch((error: unknown) => {
      setSent(false);
      tellUser(wordsOf(error));
    });
  };
  return (
    <div className="approval" role="group" aria-labelledby={`question-${call.id}`}>
      <p id={`question-${call.id}`}>
        <strong>May the agent call <code>{call.toolId}</code>?</strong> {call.approval?.text}
      </p>
      <CodeBlock code={call.params} language="json" />
      <label className="sr" htmlFor={`words-${call.id}`}>A word to the agent</label>
      <input id={`words-${call.id}`} placeholder="A word to the agent (optional)" value={words} onChange={(event) => setWords(event.target.value)} />
      <div className="row">
        <button type="button" className="primary" disabled={sent} onClick={() => decide(true)}>Allow</button>
        <button type="button" disabled={sent} onClick={() => decide(false)}>Refuse</button>
      </div>
    </div>
  );
}
