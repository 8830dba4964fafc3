/** The canvas: the files of the conversation, each in its newest version or any other, as they are or as a diff. */
import { useMemo, useState } from "react";
import { bytes, clock } from "../app/format";
import { Icon } from "../app/Icon";
import { DRAFT, show, usePage } from "../app/store";
import { address, withQuery } from "../api/client";
import { CopyButton } from "../markdown/CodeBlock";
import type { Artifact, Version } from "../timeline/model";
import { fileKey } from "../timeline/fold";
import { DiffView } from "./DiffView";
import { Download } from "./Download";
import { Draft } from "./Draft";
import { FileView, hasRendering } from "./FileView";

export default function CanvasPanel() {
  const open = usePage((state) => state.open);
  const shown = usePage((state) => state.shown);
  if (!open) return null;
  const files = [...open.timeline.artifacts.entries()].filter(([, file]) => file.external);
  const current = files.find(([key, file]) => key === shown || file.path === shown || fileKey(shown) === key)?.[1];
  const draft = open.live.channels["canvas"] ?? "";
  return (
    <div className="panel-body canvas">
      {draft && (shown === DRAFT || shown === "") ? <Draft text={draft} /> : current ? <Shown key={current.name} file={current} conversation={open.id} /> : <Listed files={files} />}
    </div>
  );
}

function Listed({ files }: { files: [string, Artifact][] }) {
  if (!files.length) return <p className="dim">No files yet. What you attach and what the agent writes appears here.</p>;
  return (
    <ul className="file-list">
      {files.map(([key, file]) => (
        <li key={key}>
          <button type="button" onClick={() => show("canvas", key)}>
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

function Shown({ file, conversation }: { file: Artifact; conversation: string }) {
  const [chosen, setChosen] = useState<number | null>(null);
  const [mode, setMode] = useState<Mode>("view");
  const at = Math.min(chosen ?? file.versions.length - 1, file.versions.length - 1);
  const version = file.versions[at];
  const before = file.versions[at - 1];
  const modes = useMemo<Mode[]>(() => modesOf(file, version, before), [file, version, before]);
  const current = modes.includes(mode) ? mode : modes[0]!;
  if (!version) return null;
  const url = withQuery(address("conversations", conversation, "file"), { path: file.path });
  return (
    <>
      <div className="canvas-bar">
        <button type="button" className="quiet small" onClick={() => show("canvas", "")}>All files</button>
        <strong className="file-name" title={file.path}>{file.name}</strong>
        {file.versions.length > 1 && (
          <label className="version">
            <span className="sr">Version</span>
            <select value={at} onChange={(event) => setChosen(Number(event.target.value))}>
              {file.versions.map((one, index) => <option key={one.seq} value={index}>Version {index + 1} · {clock(one.ts)}</option>)}
            </select>
          </label>
        )}
        <span className="row" role="group" aria-label="How it is shown">
          {modes.map((one) => <button key={one} type="button" className="quiet small" aria-pressed={one === current} onClick={() => setMode(one)}>{NAMES[one]}</button>)}
        </span>
        {version.text !== null && <CopyButton text={version.text} />}
        <Download name={file.name} url={url} text={at < file.versions.length - 1 ? version.text : null} />
      </div>
      {current === "diff" && before ? <DiffView before={before.text ?? ""} after={version.text ?? ""} /> : <FileView file={file} version={version} asText={current === "text"} url={url} />}
    </>
  );
}

/** Bytes have no source that could be read, and no lines that could be compared. */
function modesOf(file: Artifact, version: Version | undefined, before: Version | undefined): Mode[] {
  const modes: Mode[] = hasRendering(file.mime) ? ["view"] : [];
  if (typeof version?.text !== "string") return modes.length ? modes : ["view"];
  return [...modes, "text", ...(typeof before?.text === "string" ? (["diff"] as const) : [])];
}

const NAMES: Record<Mode, string> = { view: "Preview", text: "Source", diff: "Changes" };
