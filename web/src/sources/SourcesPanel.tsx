/** All sources of the conversation, and where each is cited. */
import { showPanel, useAppStore } from "../app/appStore";
import { isObject, meta } from "../timeline/blocks";
import type { Timeline } from "../timeline/fold";
import type { Artifact, Turn } from "../timeline/model";
import { SourceFacts, SourceLink } from "./SourceFacts";

export default function SourcesPanel() {
  const open = useAppStore((state) => state.open);
  if (!open) return null;
  const { sources, turns } = open.timeline;
  const uses = usesOf(turns);
  const files = filesCiting(open.timeline);
  const rows = [...sources.values()].sort((one, other) => one.sid - other.sid);
  if (!rows.length) return <div className="panel-body"><p className="dim">No sources yet. Files that you attach and pages that the agent finds appear here, with links to where they are cited.</p></div>;
  return (
    <div className="panel-body" tabIndex={0} role="region" aria-label="All sources">
      <ul className="sources">
        {rows.map((source) => (
          <li key={source.sid} className="source">
            <SourceFacts source={source} />
            <div className="row source-uses">
              {(uses.get(source.sid) ?? []).map((turn) => (
                <button key={turn.id} type="button" className="small" onClick={() => document.querySelector(`[data-turn="${CSS.escape(turn.id)}"]`)?.scrollIntoView({ block: "start" })}>
                  Cited in turn {turn.n}
                </button>
              ))}
              {(files.get(source.sid) ?? []).map((file) => (
                <button key={file.path} type="button" className="small" onClick={() => showPanel("canvas", file.path)}>Cited in {file.name}</button>
              ))}
              {!uses.has(source.sid) && !files.has(source.sid) && <span className="dim">Not cited</span>}
              <SourceLink source={source} />
            </div>
          </li>
        ))}
      </ul>
    </div>
  );
}

function usesOf(turns: Turn[]): Map<number, Turn[]> {
  const uses = new Map<number, Turn[]>();
  for (const turn of turns) {
    const sids = new Set(turn.items.flatMap((item) => (item.kind === "answer" ? item.sourcesUsed : [])));
    for (const sid of sids) uses.set(sid, [...(uses.get(sid) ?? []), turn]);
  }
  return uses;
}

/** Return the files whose newest version cites each source, as recorded by the tool that wrote the file. */
function filesCiting({ artifacts, blocks }: Timeline): Map<number, Artifact[]> {
  const uses = new Map<number, Artifact[]>();
  for (const file of artifacts.values()) {
    const block = blocks[(file.versions.at(-1)?.seq ?? 0) - 1];
    const digest = block && meta(block, "digest");
    const sids = isObject(digest) && file.external ? digest["sources_used"] : null;
    if (!Array.isArray(sids)) continue;
    for (const sid of new Set<unknown>(sids)) if (typeof sid === "number") uses.set(sid, [...(uses.get(sid) ?? []), file]);
  }
  return uses;
}
