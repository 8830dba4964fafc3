/** The input of one field of a form, by its type. */
import type { FormField, Value } from "./model";

interface Props {
  id: string;
  field: FormField;
  value: Value | undefined;
  onChange: (value: Value | undefined) => void;
}

export function FieldInput({ id, field, value, onChange }: Props) {
  if (field.type === "choices" || field.type === "yes_no") return <ChoiceGroup id={id} field={field} value={value} onChange={onChange} />;
  return (
    <div className="form-field">
      <label htmlFor={id}><Label field={field} /></label>
      {field.type === "choice" ? (
        <select id={id} required={field.required} value={typeof value === "string" ? value : ""} onChange={(event) => onChange(event.target.value || undefined)}>
          <option value=""></option>
          {field.options.map((option) => <option key={option}>{option}</option>)}
        </select>
      ) : field.type === "text" ? (
        <textarea id={id} required={field.required} rows={1} maxLength={4000} dir="auto" value={typeof value === "string" ? value : ""} onChange={(event) => onChange(event.target.value || undefined)} />
      ) : (
        <input
          id={id}
          type={field.type}
          step={field.type === "number" ? "any" : undefined}
          required={field.required}
          value={typeof value === "string" || typeof value === "number" ? value : ""}
          onChange={({ target }) => onChange(target.value === "" ? undefined : field.type === "number" ? target.valueAsNumber : target.value)}
        />
      )}
    </div>
  );
}

function ChoiceGroup({ id, field, value, onChange }: Props) {
  const chosen = Array.isArray(value) ? value : [];
  return (
    <fieldset className="form-field">
      <legend><Label field={field} /></legend>
      {field.type === "yes_no"
        ? [true, false].map((one) => (
            <label key={String(one)} className="form-option">
              <input type="radio" name={id} required={field.required} checked={value === one} onChange={() => onChange(one)} /> {one ? "Yes" : "No"}
            </label>
          ))
        : field.options.map((option) => (
            <label key={option} className="form-option">
              <input type="checkbox" checked={chosen.includes(option)} onChange={({ target }) => onChange(target.checked ? [...chosen, option] : chosen.filter((one) => one !== option))} /> {option}
            </label>
          ))}
    </fieldset>
  );
}

function Label({ field }: { field: FormField }) {
  return <>{field.label}{field.required && <span className="dim"> (required)</span>}</>;
}
