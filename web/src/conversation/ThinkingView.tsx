/** The model's thinking, collapsed by default. */
import { Collapsible } from "@base-ui/react/collapsible";
import { duration } from "../app/format";
import { Icon } from "../app/Icon";
import { Markdown } from "../markdown/Markdown";

export function ThinkingView({ text, ms, live = false }: { text: string; ms: number; live?: boolean }) {
  if (!text.trim()) return null;
  return (
    <Collapsible.Root className="thinking">
      <Collapsible.Trigger className="fold">
        <Icon name="right" />
        <span className={live ? "shimmer" : ""}>{live ? "Thinking…" : ms ? `Thought for ${duration(ms)}` : "Thought"}</span>
      </Collapsible.Trigger>
      <Collapsible.Panel className="thought">
        <Markdown text={text} growing={live} />
      </Collapsible.Panel>
    </Collapsible.Root>
  );
}
