/** A line between messages about an event, for example a summary, hidden content or a retry. */
import type { TimelineEvent } from "../timeline/model";

export function EventLine({ event }: { event: TimelineEvent }) {
  if (!event.detail) return <div className={`event-line event-${event.type}`}><span>{event.text}</span></div>;
  return (
    <details className={`event-line event-${event.type}`}>
      <summary><span>{event.text}</span></summary>
      <pre tabIndex={0}>{event.detail}</pre>
    </details>
  );
}
