/** The inspector: the timeline as it is stored, and what the model saw of it in each round. */
import { Tabs } from "@base-ui/react/tabs";
import { useCallback, useState } from "react";
import { Icon } from "../app/Icon";
import { usePage } from "../app/store";
import { BlockList } from "./BlockList";
import { BlockView } from "./BlockView";
import "./inspector.css";
import { PromptView } from "./PromptView";
import { type Round, roundsOf } from "./rounds";
import { Strip } from "./Strip";

export default function InspectorPanel() {
  const id = usePage((state) => state.open?.id ?? "");
  return id ? <Inspector key={id} /> : null;
}

function Inspector() {
  const timeline = usePage((state) => state.open)!.timeline;
  const shown = usePage((state) => state.shown);
  const rounds = roundsOf(timeline);
  const [tab, setTab] = useState<"blocks" | "prompt">("blocks");
  const [seq, setSeq] = useState(Number(shown) || 0);
  /** The request that is looked at; without one, the newest, also when there is a newer one. */
  const [asked, setAsked] = useState(0);
  const chosen = rounds.find((round) => round.seq === asked) ?? rounds.at(-1);
  const block = timeline.blocks[seq - 1];
  const look = useCallback((round: Round) => {
    setAsked(round.seq);
    setTab("prompt");
  }, []);
  const showBlock = (wanted: number) => {
    setSeq(wanted);
    setTab("blocks");
  };
  const asking = rounds.find((round) => round.seq === seq);
  return (
    <div className="panel-body inspector">
      <Strip rounds={rounds} chosen={chosen} choose={look} />
      <Tabs.Root className="tabs" value={tab} onValueChange={(value) => setTab(value as typeof tab)}>
        <div className="tabs-row">
          <Tabs.List className="tab-list" aria-label="Inspector">
            <Tabs.Tab className="tab" value="blocks">Timeline</Tabs.Tab>
            <Tabs.Tab className="tab" value="prompt">Prompt</Tabs.Tab>
          </Tabs.List>
          {chosen && <Stepper rounds={rounds} chosen={chosen} look={look} />}
        </div>
        <Tabs.Panel className="tab-panel tab-scrolls" value="prompt">
          {chosen ? <PromptView key={chosen.seq} round={chosen} showBlock={showBlock} /> : <p className="empty">No model was asked yet.</p>}
        </Tabs.Panel>
        <Tabs.Panel className="tab-panel" value="blocks">
          <BlockList blocks={timeline.blocks} tail={timeline.tail} chosen={seq} choose={setSeq} />
          {block && <BlockView key={seq} seq={seq} block={block} close={() => setSeq(0)} showPrompt={asking ? () => look(asking) : null} />}
        </Tabs.Panel>
      </Tabs.Root>
    </div>
  );
}

function Stepper({ rounds, chosen, look }: { rounds: Round[]; chosen: Round; look: (round: Round) => void }) {
  const before = rounds[chosen.at - 1];
  const after = rounds[chosen.at + 1];
  return (
    <div className="stepper" role="group" aria-label="Rounds">
      <button type="button" className="icon back" aria-label="Step back" disabled={!before} onClick={() => before && look(before)}><Icon name="right" /></button>
      <span aria-live="polite">Turn {chosen.turn}, round {chosen.round}</span>
      <button type="button" className="icon" aria-label="Step on" disabled={!after} onClick={() => after && look(after)}><Icon name="right" /></button>
    </div>
  );
}
