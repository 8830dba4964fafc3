/** JSON with a line for each value. Everything in it stays as it was written: numbers, escapes, keys that are there twice. */

/** More is shown as it is: its lines would only cost time. */
const MOST_CHARS = 1_000_000;
const DEEPEST = 100;

const TOKENS = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** The same where it is no JSON, too long or nested too deep. */
export function indented(text: string): string {
  if (text.length > MOST_CHARS || !isJson(text)) return text;
  const parts: string[] = [];
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  let before = "";
  for (const token of text.match(TOKENS) ?? []) {
    const isEnd = token === "}" || token === "]";
    if (isEnd) depth--;
    const isOpen = before === "{" || before === "[";
    if (isOpen ? !isEnd : isEnd || before === ",") parts.push(line());
    parts.push(token === ":" ? ": " : token);
    if (token === "{" || token === "[") depth++;
    if (depth > DEEPEST) return text;
    before = token;
  }
  return parts.join("");
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
