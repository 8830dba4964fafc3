/** HTML that the agent wrote, in a sandboxed frame without an origin. Its scripts run only after the user enables them. */
import { useRef, useState } from "react";

const HAS_SCRIPT = /<script|\son[a-z]+\s*=|javascript:/i;

export function HtmlFrame({ html, name }: { html: string; name: string }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const [enabledHtml, setEnabledHtml] = useState("");
  const isEnabled = enabledHtml === html;
  return (
    <>
      {HAS_SCRIPT.test(html) && !isEnabled && (
        <p className="frame-bar">
          <span>Scripts are disabled.</span>
          <button type="button" className="quiet" onClick={() => setEnabledHtml(html)}>Run scripts</button>
        </p>
      )}
      <iframe
        key={`${isEnabled}${html}`}
        ref={frame}
        className="html-frame"
        title={name}
        src={isEnabled ? "./running.html" : "./frame.html"}
        sandbox="allow-scripts"
        referrerPolicy="no-referrer"
        // A sandboxed frame has no origin, so "*" is the only possible target.
        onLoad={() => frame.current?.contentWindow?.postMessage(html, "*")}
      />
    </>
  );
}
