/** A quiet line in the flow: something was summed up, shortened, hidden or tried again. */
import type { Mark } from "../timeline/model";

export function MarkLine({ mark }: { mark: Mark }) {
  if (!mark.detail) return <div className={`mark mark-${mark.how}`}><span>{mark.text}</span></div>;
  return (
    <details className={`mark mark-${mark.how}`}>
      <summary><span>{mark.text}</span></summary>
      <pre tabIndex={0}>{mark.detail}</pre>
    </details>
  );
}
