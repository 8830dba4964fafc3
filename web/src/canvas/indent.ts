/** Indents JSON without parsing it into values, so that numbers, escapes and duplicate keys stay as written. */

/** Longer texts are shown without indentation, because it would take too long. */
const MAX_CHARS = 1_000_000;
const MAX_DEPTH = 100;

const TOKENS = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** Return the text with one value per line, or unchanged if it is not JSON, too long or too deeply nested. */
export function indentJson(text: string): string {
  if (text.length > MAX_CHARS || !isJson(text)) return text;
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
    if (depth > MAX_DEPTH) return text;
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
