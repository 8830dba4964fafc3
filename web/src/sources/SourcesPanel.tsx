/** All sources of the conversation, and where each was used. */
import { usePage } from "../app/store";
import type { Turn } from "../timeline/model";
import { SourceFacts, SourceLink } from "./SourceFacts";

export default function SourcesPanel() {
  const open = usePage((state) => state.open);
  if (!open) return null;
  const { sources, turns } = open.timeline;
  const uses = usesOf(turns);
  const rows = [...sources.values()].sort((one, other) => one.sid - other.sid);
  if (!rows.length) return <div className="panel-body"><p className="dim">No sources yet. Files that you attach and pages that the agent finds appear here, with where they are cited.</p></div>;
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
              {!uses.has(source.sid) && <span className="dim">Not cited</span>}
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
