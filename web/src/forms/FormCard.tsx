/** A form by which the agent asks: to fill in, or with the values of its answer. */
import { type FormEvent, useId, useState } from "react";
import { call as callApi } from "../api/client";
import { errorMessage, useAppStore } from "../app/appStore";
import type { Call } from "../timeline/model";
import { FieldInput } from "./FieldInput";
import { type Form, parseForm, shownValues, type Value } from "./model";

export function FormCard({ call }: { call: Call }) {
  const form = parseForm(call.params);
  const answer = useAppStore((state) => state.open?.timeline.formAnswers.get(call.id));
  const mayWrite = useAppStore((state) => state.open?.mayWrite ?? true);
  const owner = useAppStore((state) => state.open?.owner ?? "");
  if (!form) return null;
  return (
    <section className="form-card" aria-label={form.title}>
      <h3>{form.title}</h3>
      {answer ? (
        <>
          <dl className="form-values">
            {shownValues(form, answer.values).map(([label, value]) => (
              <div key={label}><dt>{label}</dt><dd dir="auto">{value}</dd></div>
            ))}
          </dl>
          <p className="dim small" role="status">Answered{["", "user", owner].includes(answer.author) ? "" : ` by ${answer.author}`}</p>
        </>
      ) : (
        <OpenForm call={call.id} form={form} mayWrite={mayWrite} />
      )}
    </section>
  );
}

function OpenForm({ call, form, mayWrite }: { call: string; form: Form; mayWrite: boolean }) {
  const prefix = useId();
  const conversation = useAppStore((state) => state.open?.id ?? "");
  const [values, setValues] = useState<Record<string, Value>>({});
  const [isSending, setSending] = useState(false);
  const [problem, setProblem] = useState("");

  const submit = (event: FormEvent) => {
    event.preventDefault();
    setSending(true);
    setProblem("");
    // The form shows its answer when the event arrives in the stream.
    callApi("post_event", { conversation_id: conversation, body: { kind: "form", form: call, text: JSON.stringify(values), mime: "application/json" } }).catch((error: unknown) => {
      setSending(false);
      setProblem(errorMessage(error));
    });
  };

  return (
    <form onSubmit={submit}>
      <fieldset disabled={isSending || !mayWrite}>
        {form.fields.map((field) => (
          <FieldInput key={field.name} id={`${prefix}${field.name}`} field={field} value={values[field.name]} onChange={(value) => setValues((before) => withValue(before, field.name, value))} />
        ))}
        {mayWrite && <button type="submit" className="primary">{isSending ? "Sending…" : "Send"}</button>}
      </fieldset>
      {problem && <p className="call-error" role="alert">{problem}</p>}
    </form>
  );
}

function withValue(values: Record<string, Value>, name: string, value: Value | undefined): Record<string, Value> {
  const rest = Object.fromEntries(Object.entries(values).filter(([key]) => key !== name));
  return value === undefined ? rest : { ...rest, [name]: value };
}
