/** A widget in a frame without an origin and without network access. It gets its text by messages and reports its height. */
import { useCallback, useEffect, useRef, useState } from "react";
import { addressOf } from "../api/client";
import { useDark } from "../app/theme";
import { type DeltaMessage, reportedHeight, type StateMessage } from "./messages";

interface Props {
  bundle: string;
  name: string;
  title: string;
  channel: string;
  mime: string;
  text: string;
  complete: boolean;
}

export function WidgetFrame({ bundle, name, title, channel, mime, text, complete }: Props) {
  const frame = useRef<HTMLIFrameElement>(null);
  const sent = useRef<StateMessage | null>(null);
  const dark = useDark();
  const [height, setHeight] = useState(0);

  // A frame without an origin can only be addressed as "*". The page never sends it more than its own channel.
  const post = useCallback((message: StateMessage | DeltaMessage) => frame.current?.contentWindow?.postMessage(message, "*"), []);
  const postState = useCallback((state: StateMessage) => {
    sent.current = state;
    post(state);
  }, [post]);

  useEffect(() => {
    const before = sent.current;
    if (!before) return; // The frame has not loaded yet.
    const state: StateMessage = { type: "timeloom.state", channel, mime, text, complete, dark };
    const goesOn = !complete && before.dark === dark && text.startsWith(before.text);
    if (!goesOn) {
      if (before.text !== text || before.complete !== complete || before.dark !== dark) postState(state);
    } else if (text.length > before.text.length) {
      sent.current = state;
      post({ type: "timeloom.delta", text: text.slice(before.text.length) });
    }
  }, [channel, mime, text, complete, dark, post, postState]);

  useEffect(() => {
    const onMessage = (event: MessageEvent) => {
      if (event.source !== frame.current?.contentWindow) return;
      const reported = reportedHeight(event.data);
      if (reported !== null) setHeight(reported);
    };
    window.addEventListener("message", onMessage);
    return () => window.removeEventListener("message", onMessage);
  }, []);

  return (
    <iframe
      ref={frame}
      className="widget-frame"
      title={title}
      src={addressOf("get_widget", { widget: name, query: { bundle } })}
      sandbox="allow-scripts"
      referrerPolicy="no-referrer"
      height={height || 160}
      onLoad={() => postState({ type: "timeloom.state", channel, mime, text, complete, dark })}
    />
  );
}
