/** Parses an interrupted reply of the model into the parts that the page shows while a reply is streamed. */
export interface PartialReply {
  thinking: string;
  notes: string;
  code: string;
  answer: string;
}

const CHANNEL = /<channel:(\w+)>([\s\S]*?)(?=<\/channel:\1>|<channel:\w+>|$)/g;

export function parsePartialReply(reply: string): PartialReply {
  const found: Record<keyof PartialReply, string[]> = { thinking: [], notes: [], code: [], answer: [] };
  for (const [, name, text = ""] of reply.matchAll(CHANNEL)) {
    if (name === "thinking" || name === "code" || name === "notes") found[name].push(text);
    if (name === "final_answer") found.answer.push(text);
    if (name !== "ReactDecisionOutV2" && name !== "action") continue;
    found.notes.push(...stringFields(text, "notes"));
    found.answer.push(...stringFields(text, "final_answer"));
  }
  const joined = (key: keyof PartialReply) => found[key].map((one) => one.trim()).filter(Boolean).join("\n\n");
  return { thinking: joined("thinking"), notes: joined("notes"), code: joined("code"), answer: joined("answer") };
}

/** Return the values of a string field in JSON that may be incomplete. */
function stringFields(json: string, name: string): string[] {
  const string = new RegExp(`"${name}"\\s*:\\s*"([^"\\\\]*(?:\\\\[\\s\\S][^"\\\\]*)*)`, "g");
  return [...json.matchAll(string)].map(([, text = ""]) => unescapeJson(text));
}

function unescapeJson(text: string): string {
  const whole = text.replace(/\\u[0-9a-fA-F]{0,3}$/, "").replace(/[\u0000-\u001f]/g, (char) => JSON.stringify(char).slice(1, -1));
  try {
    return String(JSON.parse(`"${whole}"`));
  } catch {
    return text;
  }
}
