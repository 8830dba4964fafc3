/** Forms as calls of `react.form` describe them, and the answers of people. */
import { asString, isObject, objectOf } from "../timeline/blocks";

export const FORM_TOOL = "react.form";

export type FieldType = "text" | "number" | "choice" | "choices" | "date" | "yes_no";

export interface FormField {
  name: string;
  label: string;
  type: FieldType;
  required: boolean;
  options: string[];
}

export interface Form {
  title: string;
  fields: FormField[];
}

export type Value = string | number | boolean | string[];

const TYPES = new Set<string>(["text", "number", "choice", "choices", "date", "yes_no"]);

/** Return the form that the parameters of a call describe; null if they describe none. */
export function parseForm(params: string): Form | null {
  const { title, fields } = objectOf(params);
  if (typeof title !== "string" || !Array.isArray(fields)) return null;
  return {
    title,
    fields: fields.filter(isObject).map((one) => {
      const name = asString(one["name"]);
      const type = asString(one["type"]);
      return {
        name,
        label: asString(one["label"]) || name,
        type: (TYPES.has(type) ? type : "text") as FieldType,
        required: one["required"] === true,
        options: Array.isArray(one["options"]) ? one["options"].filter((option): option is string => typeof option === "string") : [],
      };
    }),
  };
}

/** Return the values as a person reads them, by the labels of their fields. */
export function shownValues(form: Form, values: Record<string, unknown>): [string, string][] {
  return form.fields.filter(({ name }) => values[name] !== undefined).map(({ name, label }) => [label, shownValue(values[name])]);
}

function shownValue(value: unknown): string {
  if (typeof value === "boolean") return value ? "Yes" : "No";
  return Array.isArray(value) ? value.join(", ") : String(value);
}
