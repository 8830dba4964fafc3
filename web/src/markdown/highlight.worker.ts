/** The worker that tokenizes code with shiki. Tokens get CSS classes, because the content policy forbids style attributes. */
import type { HighlighterCore, LanguageInput } from "shiki/core";
import type { HighlightReply, HighlightRequest } from "./highlight";
import type { Language } from "./languages";

const GRAMMARS: Record<Language, () => Promise<{ default: LanguageInput }>> = {
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
};

let highlighter: Promise<HighlighterCore> | null = null;

self.onmessage = async ({ data: { id, code, language } }: MessageEvent<HighlightRequest>) => {
  let reply: HighlightReply = { id, lines: null };
  try {
    highlighter ??= start();
    const [ready, grammar] = await Promise.all([highlighter, GRAMMARS[language]()]);
    await ready.loadLanguage(grammar.default);
    // Without a limit for a line, which a busy machine reaches too: the page ends a worker that takes too long.
    const { tokens } = ready.codeToTokens(code, { lang: language, theme: "css-variables", tokenizeTimeLimit: 0 });
    reply = { id, lines: tokens.map((line) => line.map(({ content, color }) => ({ text: content, kind: kindOf(color) }))) };
  } finally {
    self.postMessage(reply);
  }
};

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
