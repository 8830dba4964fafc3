/** HTML that an agent wrote, in a frame whose document has no origin. Its scripts run when a person says so. */
import { useRef, useState } from "react";

const SCRIPTED = /<script|\son[a-z]+\s*=|javascript:/i;

export function HtmlFrame({ html, name }: { html: string; name: string }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const [running, setRunning] = useState("");
  const runs = running === html;
  return (
    <>
      {SCRIPTED.test(html) && !runs && (
        <p className="frame-bar">
          <span>Its scripts are off.</span>
          <button type="button" className="quiet" onClick={() => setRunning(html)}>Run scripts</button>
        </p>
      )}
      <iframe
        key={`${runs}${html}`}
        ref={frame}
        className="html-frame"
        title={name}
        src={runs ? "./running.html" : "./frame.html"}
        sandbox="allow-scripts"
        referrerPolicy="no-referrer"
        // The frame is nobody's origin, so there is no other address to name.
        onLoad={() => frame.current?.contentWindow?.postMessage(html, "*")}
      />
    </>
  );
}
