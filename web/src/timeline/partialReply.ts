/** What a reply had come to when it was broken off: the same parts of it that are shown while it is written. */
export interface Written {
  thinking: string;
  notes: string;
  code: string;
  answer: string;
}

const CHANNEL = /<channel:(\w+)>([\s\S]*?)(?=<\/channel:\1>|<channel:\w+>|$)/g;

export function written(reply: string): Written {
  const found: Record<keyof Written, string[]> = { thinking: [], notes: [], code: [], answer: [] };
  for (const [, name, text = ""] of reply.matchAll(CHANNEL)) {
    if (name === "thinking" || name === "code") found[name].push(text);
    if (name !== "ReactDecisionOutV2" && name !== "action") continue;
    found.notes.push(...fields(text, "notes"));
    found.answer.push(...fields(text, "final_answer"));
  }
  const joined = (key: keyof Written) => found[key].map((one) => one.trim()).filter(Boolean).join("\n\n");
  return { thinking: joined("thinking"), notes: joined("notes"), code: joined("code"), answer: joined("answer") };
}

/** The texts of a field in JSON that may end anywhere. */
function fields(json: string, name: string): string[] {
  const string = new RegExp(`"${name}"\\s*:\\s*"([^"\\\\]*(?:\\\\[\\s\\S][^"\\\\]*)*)`, "g");
  return [...json.matchAll(string)].map(([, text = ""]) => decoded(text));
}

function decoded(text: string): string {
  const whole = text.replace(/\\u[0-9a-fA-F]{0,3}$/, "").replace(/[\u0000-\u001f]/g, (sign) => JSON.stringify(sign).slice(1, -1));
  try {
    return String(JSON.parse(`"${whole}"`));
  } catch {
    return text;
  }
}
