/** Syntax highlighting with shiki. Tokens get CSS classes, because the content policy forbids style attributes. Languages load on demand. */
import type { HighlighterCore, LanguageInput } from "shiki/core";
import { table } from "../timeline/blocks";

const LANGUAGES = table<() => Promise<{ default: LanguageInput }>>({
  bash: () => import("shiki/langs/bash.mjs"),
  c: () => import("shiki/langs/c.mjs"),
  css: () => import("shiki/langs/css.mjs"),
  diff: () => import("shiki/langs/diff.mjs"),
  go: () => import("shiki/langs/go.mjs"),
  html: () => import("shiki/langs/html.mjs"),
  java: () => import("shiki/langs/java.mjs"),
  javascript: () => import("shiki/langs/javascript.mjs"),
  json: () => import("shiki/langs/json.mjs"),
  markdown: () => import("shiki/langs/markdown.mjs"),
  python: () => import("shiki/langs/python.mjs"),
  rust: () => import("shiki/langs/rust.mjs"),
  sql: () => import("shiki/langs/sql.mjs"),
  toml: () => import("shiki/langs/toml.mjs"),
  typescript: () => import("shiki/langs/typescript.mjs"),
  xml: () => import("shiki/langs/xml.mjs"),
  yaml: () => import("shiki/langs/yaml.mjs"),
});

const ALIASES = table<string>({
  sh: "bash", shell: "bash", zsh: "bash", console: "bash", js: "javascript", jsx: "javascript", ts: "typescript", tsx: "typescript",
  py: "python", python3: "python", yml: "yaml", md: "markdown", htm: "html", svg: "xml", rs: "rust", golang: "go", h: "c", jsonc: "json", patch: "diff",
});

export interface HighlightedText {
  text: string;
  kind: string;
}

/** Longer code is not highlighted, because it would take too long. */
const MAX_CHARS = 60000;

let highlighter: Promise<HighlighterCore> | null = null;

export function languageOf(name: string): string {
  const lower = name.toLowerCase();
  return lower in LANGUAGES ? lower : (ALIASES[lower] ?? "");
}

export async function highlight(code: string, language: string): Promise<HighlightedText[][] | null> {
  const load = LANGUAGES[language];
  if (!load || code.length > MAX_CHARS) return null;
  highlighter ??= start();
  const [ready, grammar] = await Promise.all([highlighter, load()]);
  await ready.loadLanguage(grammar.default);
  const { tokens } = ready.codeToTokens(code, { lang: language, theme: "css-variables", tokenizeTimeLimit: 200 });
  return tokens.map((line) => line.map(({ content, color }) => ({ text: content, kind: kindOf(color) })));
}

async function start(): Promise<HighlighterCore> {
  const [{ createHighlighterCore, createCssVariablesTheme }, { createJavaScriptRegexEngine }] = await Promise.all([
    import("shiki/core"),
    import("shiki/engine/javascript"),
  ]);
  const theme = createCssVariablesTheme({ name: "css-variables", variablePrefix: "--tk-" });
  return createHighlighterCore({ themes: [theme], langs: [], engine: createJavaScriptRegexEngine({ forgiving: true }) });
}

function kindOf(color: string | undefined): string {
  return /--tk-token-([a-z-]+)/.exec(color ?? "")?.[1] ?? "";
}
