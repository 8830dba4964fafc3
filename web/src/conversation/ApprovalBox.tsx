/** A question to a person: may this call be made? */
import { type ReactNode, useState } from "react";
import { address, post } from "../api/client";
import { tellUser, usePage, wordsOf } from "../app/store";
import { CodeBlock } from "../markdown/CodeBlock";
import { objectOf } from "../timeline/blocks";
import type { Call } from "../timeline/model";
import { focusComposer } from "./draft";

export function ApprovalBox({ call }: { call: Call }) {
  const conversation = usePage((state) => state.open?.id ?? "");
  const [words, setWords] = useState("");
  const [sent, setSent] = useState(false);
  const decide = (approved: boolean) => {
    setSent(true);
    // The buttons go away with the answer.
    focusComposer();
    post(address("conversations", conversation, "approvals", call.id), { approved, text: words }).catch((error: unknown) => {
      setSent(false);
      tellUser(wordsOf(error));
    });
  };
  return (
    <div className="approval" role="group" aria-labelledby={`question-${call.id}`}>
      <p id={`question-${call.id}`}>
        <strong>{questionOf(call)}</strong> {call.approval?.text}
      </p>
      {call.code && <CodeBlock code={call.code} language="python" />}
      <Parameters params={objectOf(call.params)} />
      <label className="sr" htmlFor={`words-${call.id}`}>A word to the agent</label>
      <input id={`words-${call.id}`} placeholder="A word to the agent (optional)" value={words} onChange={(event) => setWords(event.target.value)} />
      <div className="row">
        <button type="button" className="primary" disabled={sent} onClick={() => decide(true)}>Allow</button>
        <button type="button" disabled={sent} onClick={() => decide(false)}>Refuse</button>
      </div>
    </div>
  );
}

function questionOf(call: Call): ReactNode {
  if (call.code) return "May the agent run this program?";
  if (call.toolId === "model") return "May the agent ask the model?";
  return <>May the agent call <code>{call.toolId}</code>?</>;
}

/** What the call is given, in plain words; what is empty says nothing. */
function Parameters({ params }: { params: Record<string, unknown> }) {
  const given = Object.entries(params).filter(([, value]) => value !== null && value !== "" && !(Array.isArray(value) && !value.length));
  if (!given.length) return null;
  return (
    <dl className="given">
      {given.map(([name, value]) => (
        <div key={name}>
          <dt>{name === "prog_name" ? "program" : name.replaceAll("_", " ")}</dt>
          <dd tabIndex={0}>{plain(value)}</dd>
        </div>
      ))}
    </dl>
  );
}

function plain(value: unknown): string {
  if (typeof value === "string") return value;
  if (Array.isArray(value) && value.every((one) => typeof one === "string")) return value.join(", ");
  return JSON.stringify(value, null, 2);
}
