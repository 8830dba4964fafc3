/** A tool call: its parameters, live output, result and duration. */
import { Collapsible } from "@base-ui/react/collapsible";
import { useEffect, useState } from "react";
import { bytes, duration } from "../app/format";
import { Icon } from "../app/Icon";
import { showPanel, useAppStore } from "../app/appStore";
import { CodeBlock } from "../markdown/CodeBlock";
import { Markdown } from "../markdown/Markdown";
import { objectOf, table } from "../timeline/blocks";
import { fileKey, nameOf } from "../timeline/fold";
import type { Call, Result } from "../timeline/model";
import { ApprovalBox } from "./ApprovalBox";
import { FormCard } from "../forms/FormCard";
import { FORM_TOOL } from "../forms/model";
import { ChatText } from "./ChatText";

export function CallCard({ call, running }: { call: Call; running: boolean }) {
  const state = stateOf(call, running);
  // PlanView shows the plan itself.
  if (call.toolId === "react.plan" && state === "done" && !call.notices.length) return null;
  if (call.toolId === FORM_TOOL && state === "done") return <FormCard call={call} />;
  const isWaiting = call.approval !== null && call.approval.decided === "";
  const files = call.results.filter((result) => result.role === "content" && result.path.startsWith("fi:"));
  return (
    <Collapsible.Root className={`call call-${state}`} defaultOpen={false}>
      <Collapsible.Trigger className="call-head">
        <span className="call-dot" role="img" aria-label={STATE_LABELS[state]} />
        <span className="call-name">{titleOf(call, state)}</span>
        <span className="call-summary">{summaryOf(call)}</span>
        <span className="call-time">{call.endedTs && state !== "refused" ? activeDuration(call) : state === "running" ? <Clock since={call.approval?.decidedTs || call.startedTs} /> : ""}</span>
        <Icon name="down" />
      </Collapsible.Trigger>
      {isWaiting && <ApprovalBox call={call} />}
      {state === "running" && call.output && <pre className="output live" tabIndex={0} aria-label="Output">{call.output}</pre>}
      {call.error && <div className="call-error">{call.error}</div>}
      {files.filter((file) => file.channel === "timeline_text" && file.text).map((file) => (
        <ChatText key={`text${file.seq}`} path={file.path} mime={file.mime} text={file.text} />
      ))}
      {files.length > 0 && (
        <div className="call-files">
          {files.map((file) => (
            <FileChip key={file.seq} file={file} />
          ))}
        </div>
      )}
      <Collapsible.Panel className="call-body">
        <Details call={call} />
      </Collapsible.Panel>
    </Collapsible.Root>
  );
}

type CallState = "running" | "waiting" | "failed" | "refused" | "done" | "interrupted";

const STATE_LABELS: Record<CallState, string> = {
  running: "running",
  waiting: "waiting for approval",
  failed: "failed",
  refused: "refused",
  done: "done",
  interrupted: "interrupted",
};

function stateOf(call: Call, running: boolean): CallState {
  if (call.approval?.decided === "refused" || call.gate) return "refused";
  if (call.error) return "failed";
  if (call.endedTs) return "done";
  if (call.approval && !call.approval.decided) return running ? "waiting" : "interrupted";
  return running ? "running" : "interrupted";
}

/** Return how long the call took, without the wait for an approval. */
function activeDuration({ toolId, startedTs, endedTs, approval }: Call): string {
  if (toolId === "model") return "";
  const waitMs = approval?.decidedTs ? Date.parse(approval.decidedTs) - Date.parse(approval.askedTs || approval.decidedTs) : 0;
  return duration(Math.max(0, Date.parse(endedTs) - Date.parse(startedTs) - waitMs));
}

/** The action of each tool: in progress, done, and as an infinitive. */
const TITLES = table<readonly [string, string, string]>({
  "exec_tools.execute_code_python": ["Running a program", "Ran a program", "run a program"],
  model: ["Calling the model", "Called the model", "call the model"],
  "react.write": ["Writing a file", "Wrote a file", "write a file"],
  "react.read": ["Reading", "Read", "read"],
  "react.patch": ["Editing a file", "Edited a file", "edit a file"],
  "react.plan": ["Planning", "Plan", "plan"],
  "react.rg": ["Searching files", "Searched files", "search files"],
  "react.pull": ["Fetching files", "Fetched files", "fetch files"],
  "react.checkout": ["Checking out files", "Checked out files", "check out files"],
  "react.form": ["Asking by a form", "Asked by a form", "ask by a form"],
  "react.hide": ["Hiding content", "Hid content", "hide content"],
});

function titleOf(call: Call, state: CallState): string {
  const known = TITLES[call.toolId];
  if (!known) return call.toolId || "Program";
  const [doing, done, infinitive] = known;
  switch (state) {
    case "running":
      return doing;
    case "done":
      return done;
    case "waiting":
      return `Wants to ${infinitive}`;
    case "refused":
      return `Was not allowed to ${infinitive}`;
    case "interrupted":
      return call.approval && !call.approval.decided ? `Wanted to ${infinitive}` : `Started to ${infinitive}`;
    case "failed":
      return call.code ? done : `Could not ${infinitive}`;
  }
}

function summaryOf(call: Call): string {
  const params = objectOf(call.params);
  for (const key of ["path", "paths", "pattern", "query", "prog_name", "mode", "url"]) {
    const value = params[key];
    if (typeof value === "string" && value) return value;
    if (Array.isArray(value) && value.length) return value.filter((one) => typeof one === "string").join(", ");
  }
  return "";
}

function Details({ call }: { call: Call }) {
  const statuses = call.results.filter((result) => result.role === "status");
  return (
    <>
      <dl className="call-facts">
        <dt>Tool</dt>
        <dd><code>{call.toolId}</code></dd>
        {call.approval?.decided && (
          <>
            <dt>Approval</dt>
            <dd>{call.approval.decided}{call.approval.by && ` by ${call.approval.by}`}{call.approval.comment && `: ${call.approval.comment}`}</dd>
          </>
        )}
      </dl>
      {call.code && <CodeBlock code={call.code} language="python" />}
      <h2>Parameters</h2>
      <CodeBlock code={pretty(call.params)} language="json" />
      {call.notices.map((notice) => (
        <div className="notice" key={notice.seq}><code>{notice.code}</code> {notice.text}</div>
      ))}
      {statuses.length > 0 && <h2>Result</h2>}
      {statuses.map((result) => (
        <ResultView key={result.seq} result={result} />
      ))}
    </>
  );
}

function ResultView({ result }: { result: Result }) {
  if (result.mime === "application/json") return <CodeBlock code={pretty(result.text)} language="json" />;
  if (result.mime === "text/markdown" && !result.text.includes("\n| ")) return <Markdown text={result.text} />;
  return <pre className="output" tabIndex={0}>{result.text}</pre>;
}

function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}

export function FileChip({ file }: { file: Result }) {
  const isInternal = useAppStore((state) => state.open?.timeline.artifacts.get(fileKey(file.path))?.external === false);
  const isShown = useAppStore((state) => state.panel === "canvas" && state.panelItem === fileKey(file.path));
  if (isInternal) {
    return <span className="file-chip internal" title="Only the agent uses this file."><Icon name="file" /> <span className="file-name">{nameOf(file.path)}</span> <span className="dim">internal</span></span>;
  }
  return (
    <button type="button" className="file-chip" aria-pressed={isShown} onClick={() => showPanel("canvas", fileKey(file.path))}>
      <Icon name="file" /> <span className="file-name">{nameOf(file.path)}</span>
      {file.text && <span className="dim">{bytes(new Blob([file.text]).size)}</span>}
    </button>
  );
}

export function Clock({ since }: { since: string | number }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = window.setInterval(() => setNow(Date.now()), 500);
    return () => window.clearInterval(timer);
  }, []);
  const start = typeof since === "number" ? since : Date.parse(since);
  return <>{duration(Math.max(0, Math.round((now - start) / 500) * 500))}</>;
}
