/** Text that the model wrote on a channel of the agent: in the widget of the channel, or as text with a label. */
import { useAppStore } from "../app/appStore";
import { indentJson } from "../canvas/indent";
import { languageOfFile } from "../canvas/FileView";
import { CodeBlock } from "../markdown/CodeBlock";
import { Markdown } from "../markdown/Markdown";
import { WidgetFrame } from "./WidgetFrame";

interface Props {
  channel: string;
  mime: string;
  widget: string;
  text: string;
  /** Whether the model still writes. */
  growing?: boolean;
  cut?: boolean;
}

export function ChannelView({ channel, mime, widget, text, growing = false, cut = false }: Props) {
  const bundle = useAppStore((state) => state.open?.timeline.bundle ?? "");
  const known = useAppStore((state) => state.me?.widgets?.find((one) => one.name === widget && one.bundle === bundle));
  return (
    <figure className="channel" aria-label={`Channel ${channel}`}>
      {known ? (
        <WidgetFrame bundle={bundle} name={widget} title={known.title} channel={channel} mime={mime} text={text} complete={!growing} />
      ) : (
        <>
          <figcaption className="dim small">{channel}</figcaption>
          <ChannelBody mime={mime} text={text} growing={growing} />
        </>
      )}
      {cut && <p className="dim small" role="note">A part of this text is missing.</p>}
    </figure>
  );
}

function ChannelBody({ mime, text, growing }: { mime: string; text: string; growing: boolean }) {
  if (mime === "text/markdown") return <Markdown text={text} growing={growing} />;
  if (mime === "text/plain") return <pre className="channel-text" dir="auto">{text}</pre>;
  const isJson = mime === "application/json" || mime.endsWith("+json");
  return <CodeBlock code={isJson && !growing ? indentJson(text) : text} language={isJson ? "json" : languageOfFile("", mime)} growing={growing} />;
}
