/** Named values as a list: the parameters of a call, or the fields of a form. Empty ones are left out. */
export function Parameters({ params }: { params: Record<string, unknown> }) {
  const given = Object.entries(params).filter(([, value]) => value !== null && value !== "" && !(Array.isArray(value) && !value.length));
  if (!given.length) return null;
  return (
    <dl className="params">
      {given.map(([name, value]) => (
        <div key={name}>
          <dt>{name === "prog_name" ? "program" : name.replaceAll("_", " ")}</dt>
          <dd tabIndex={0} dir="auto">{valueText(value)}</dd>
        </div>
      ))}
    </dl>
  );
}

function valueText(value: unknown): string {
  if (typeof value === "string") return value;
  if (Array.isArray(value) && value.every((one) => typeof one === "string")) return value.join(", ");
  return JSON.stringify(value, null, 2);
}
