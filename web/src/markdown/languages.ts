/** The languages that can be highlighted, and other names for them. */
import { table } from "../timeline/blocks";

export const LANGUAGES = [
  "bash", "c", "css", "diff", "go", "html", "java", "javascript", "json",
  "markdown", "python", "rust", "sql", "toml", "typescript", "xml", "yaml",
] as const;

export type Language = (typeof LANGUAGES)[number];

const ALIASES = table<Language>({
  sh: "bash", shell: "bash", zsh: "bash", console: "bash", js: "javascript", jsx: "javascript", ts: "typescript", tsx: "typescript",
  py: "python", python3: "python", yml: "yaml", md: "markdown", htm: "html", svg: "xml", rs: "rust", golang: "go", h: "c", jsonc: "json", patch: "diff",
});

/** Return the language of a name or alias; empty if it cannot be highlighted. */
export function languageOf(name: string): Language | "" {
  const lower = name.toLowerCase();
  return LANGUAGES.find((one) => one === lower) ?? ALIASES[lower] ?? "";
}
