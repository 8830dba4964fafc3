/** The files of the conversation: a list, and one open file with its versions and their differences. */
import { useMemo, useState } from "react";
import { bytes, clock } from "../app/format";
import { Icon } from "../app/Icon";
import { DRAFT, showPanel, useAppStore } from "../app/appStore";
import { addressOf } from "../api/client";
import { textForClipboard } from "../markdown/clipboard";
import { CopyButton } from "../markdown/CodeBlock";
import type { Artifact, Version } from "../timeline/model";
import { fileKey, nameOf } from "../timeline/fold";
import { DiffView } from "./DiffView";
import { Download } from "./Download";
import { Draft } from "./Draft";
import { FileView, hasPreview } from "./FileView";

export default function CanvasPanel() {
  const open = useAppStore((state) => state.open);
  const panelItem = useAppStore((state) => state.panelItem);
  if (!open) return null;
  const files = [...open.timeline.artifacts.entries()].filter(([, file]) => file.external);
  const current = files.find(([key, file]) => key === panelItem || file.path === panelItem || fileKey(panelItem) === key)?.[1];
  const draft = open.live.files.findLast((file) => file.channel === "canvas");
  const isWaiting = open.status?.state === "waiting";
  const isDraftShown = draft && (panelItem === DRAFT || panelItem === "");
  return (
    <div className="panel-body canvas">
      {draft && !isDraftShown && !isWaiting && (
        <div className="canvas-news" role="status">
          <span className="shimmer">Writing {draft.path ? nameOf(draft.path) : "a file"}…</span>
          <button type="button" className="quiet small" onClick={() => showPanel("canvas", DRAFT)}>Show</button>
        </div>
      )}
      {isDraftShown ? <Draft key={draft.path} file={draft} isWaiting={isWaiting} /> : current ? <OpenFile key={current.name} file={current} conversation={open.id} /> : <FileList files={files} />}
    </div>
  );
}

function FileList({ files }: { files: [string, Artifact][] }) {
  if (!files.length) return <p className="dim">No files yet. Files that you attach and files that the agent writes appear here.</p>;
  return (
    <ul className="file-list">
      {files.map(([key, file]) => (
        <li key={key}>
          <button type="button" onClick={() => showPanel("canvas", key)}>
            <Icon name="file" />
            <span className="file-name">{file.name}</span>
            <span className="dim">{file.mime} · {bytes(file.versions.at(-1)?.bytes ?? 0)}{file.versions.length > 1 && ` · ${file.versions.length} versions`}</span>
          </button>
        </li>
      ))}
    </ul>
  );
}

type Mode = "view" | "text" | "diff";

function OpenFile({ file, conversation }: { file: Artifact; conversation: string }) {
  const [chosen, setChosen] = useState<number | null>(null);
  const [mode, setMode] = useState<Mode>("view");
  const at = Math.min(chosen ?? file.versions.length - 1, file.versions.length - 1);
  const version = file.versions[at];
  const before = file.versions[at - 1];
  const modes = useMemo<Mode[]>(() => modesOf(file, version, before), [file, version, before]);
  const current = modes.includes(mode) ? mode : modes[0]!;
  if (!version) return null;
  const url = addressOf("get_file", { conversation_id: conversation, query: { path: file.path } });
  return (
    <>
      <div className="canvas-bar">
        <button type="button" className="quiet small" onClick={() => showPanel("canvas", "")}>All files</button>
        <strong className="file-name" title={file.path}>{file.name}</strong>
        {file.versions.length > 1 && (
          <label className="version">
            <span className="sr">Version</span>
            <select value={at} onChange={(event) => setChosen(Number(event.target.value))}>
              {file.versions.map((one, index) => <option key={one.seq} value={index}>Version {index + 1} · {clock(one.ts)}</option>)}
            </select>
          </label>
        )}
        <span className="row" role="group" aria-label="View">
          {modes.map((one) => <button key={one} type="button" className="quiet small" aria-pressed={one === current} onClick={() => setMode(one)}>{MODE_LABELS[one]}</button>)}
        </span>
        {version.text !== null && <CopyButton text={() => clipboardText(file, version.text ?? "", current)} />}
        <Download name={file.name} url={url} text={at < file.versions.length - 1 ? version.text : null} />
      </div>
      {current === "diff" && before ? <DiffView before={before.text ?? ""} after={version.text ?? ""} /> : <FileView file={file} version={version} asText={current === "text"} url={url} />}
    </>
  );
}

/** Return what is copied: the source, or what the preview of a Markdown file shows. */
function clipboardText(file: Artifact, text: string, mode: Mode): string {
  const sources = useAppStore.getState().open?.timeline.sources ?? new Map();
  return mode === "view" && file.mime === "text/markdown" ? textForClipboard(text, sources) : text;
}

/** Return the view modes of a version. A binary file has neither a source view nor a diff. */
function modesOf(file: Artifact, version: Version | undefined, before: Version | undefined): Mode[] {
  const modes: Mode[] = hasPreview(file.mime) ? ["view"] : [];
  if (typeof version?.text !== "string") return modes.length ? modes : ["view"];
  return [...modes, "text", ...(typeof before?.text === "string" ? (["diff"] as const) : [])];
}

const MODE_LABELS: Record<Mode, string> = { view: "Preview", text: "Source", diff: "Changes" };
