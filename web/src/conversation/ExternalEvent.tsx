/** An event that another program or person sent to the conversation: an alert, a submitted form, or another kind. */
import { CodeBlock } from "../markdown/CodeBlock";
import { isObject, table } from "../timeline/blocks";
import type { Message } from "../timeline/model";
import { Parameters } from "./Parameters";

const TITLES = table<string>({ alert: "Alert", cancel: "Cancelled", form: "Form", wizard: "Wizard" });

export function ExternalEvent({ message }: { message: Message }) {
  const { event, author, text, mime } = message;
  const title = TITLES[event] ?? event.replace(/[_-]+/g, " ").replace(/^./, (letter) => letter.toUpperCase());
  return (
    <div className={`external external-${event === "alert" ? "alert" : "other"}`} role="group" aria-label={title}>
      <div className="external-head"><strong>{title}</strong> {author && author !== "user" && <span className="dim">from {author}</span>}</div>
      {text && <Body text={text} mime={mime} />}
    </div>
  );
}

function Body({ text, mime }: { text: string; mime: string }) {
  const value = mime === "application/json" ? parsed(text) : undefined;
  if (isObject(value)) return <Parameters params={formValues(value)} />;
  if (typeof value === "string") return <p dir="auto">{value}</p>;
  if (value !== undefined) return <CodeBlock code={JSON.stringify(value, null, 2)} language="json" />;
  return <p dir="auto">{text}</p>;
}

/** Return the values of an answer to a form without the name of the form, and every other object as it is. */
function formValues(value: Record<string, unknown>): Record<string, unknown> {
  return typeof value["form"] === "string" && isObject(value["values"]) ? value["values"] : value;
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json) as unknown;
  } catch {
    return undefined;
  }
}
