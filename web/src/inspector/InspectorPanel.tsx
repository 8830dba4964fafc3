/** The inspector: the stored blocks, and the prompt that the model received in each round. */
import { Tabs } from "@base-ui/react/tabs";
import { useCallback, useState } from "react";
import { Icon } from "../app/Icon";
import { useAppStore } from "../app/appStore";
import { BlockList } from "./BlockList";
import { BlockView } from "./BlockView";
import "./inspector.css";
import { PromptView } from "./PromptView";
import { type Round, roundsOf } from "./rounds";
import { TimelineStrip } from "./TimelineStrip";

export default function InspectorPanel() {
  const id = useAppStore((state) => state.open?.id ?? "");
  return id ? <Inspector key={id} /> : null;
}

function Inspector() {
  const timeline = useAppStore((state) => state.open)!.timeline;
  const panelItem = useAppStore((state) => state.panelItem);
  const rounds = roundsOf(timeline);
  const [tab, setTab] = useState<"blocks" | "prompt">("blocks");
  const [seq, setSeq] = useState(Number(panelItem) || 0);
  /** The seq of the selected round's request; 0 follows the newest round. */
  const [roundSeq, setRoundSeq] = useState(0);
  const chosen = rounds.find((round) => round.seq === roundSeq) ?? rounds.at(-1);
  const block = timeline.blocks[seq - 1];
  const showRound = useCallback((round: Round) => {
    setRoundSeq(round.seq);
    setTab("prompt");
  }, []);
  const showBlock = (blockSeq: number) => {
    setSeq(blockSeq);
    setTab("blocks");
  };
  const roundOfBlock = rounds.find((round) => round.seq === seq);
  return (
    <div className="panel-body inspector">
      <TimelineStrip rounds={rounds} chosen={chosen} choose={showRound} />
      <Tabs.Root className="tabs" value={tab} onValueChange={(value) => setTab(value as typeof tab)}>
        <div className="tabs-row">
          <Tabs.List className="tab-list" aria-label="Inspector">
            <Tabs.Tab className="tab" value="blocks">Timeline</Tabs.Tab>
            <Tabs.Tab className="tab" value="prompt">Prompt</Tabs.Tab>
          </Tabs.List>
          {chosen && <Stepper rounds={rounds} chosen={chosen} choose={showRound} />}
        </div>
        <Tabs.Panel className="tab-panel tab-scrolls" value="prompt">
          {chosen ? <PromptView key={chosen.seq} round={chosen} showBlock={showBlock} /> : <p className="empty">No model calls yet.</p>}
        </Tabs.Panel>
        <Tabs.Panel className="tab-panel" value="blocks">
          <BlockList blocks={timeline.blocks} tail={timeline.tail} chosen={seq} choose={setSeq} />
          {block && <BlockView key={seq} seq={seq} block={block} close={() => setSeq(0)} showPrompt={roundOfBlock ? () => showRound(roundOfBlock) : null} />}
        </Tabs.Panel>
      </Tabs.Root>
    </div>
  );
}

function Stepper({ rounds, chosen, choose }: { rounds: Round[]; chosen: Round; choose: (round: Round) => void }) {
  const before = rounds[chosen.at - 1];
  const after = rounds[chosen.at + 1];
  return (
    <div className="stepper" role="group" aria-label="Rounds">
      <button type="button" className="icon back" aria-label="Previous round" disabled={!before} onClick={() => before && choose(before)}><Icon name="right" /></button>
      <span aria-live="polite">Turn {chosen.turn}, round {chosen.round}</span>
      <button type="button" className="icon" aria-label="Next round" disabled={!after} onClick={() => after && choose(after)}><Icon name="right" /></button>
    </div>
  );
}
