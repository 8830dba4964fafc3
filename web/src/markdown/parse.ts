/** Converts untrusted Markdown to safe HTML: tags become text, images links, citations chips and formulas MathML. */
import DOMPurify from "dompurify";
import { Marked, type RendererThis, type Token, type Tokens, type TokensList } from "marked";
import { mathHtml } from "./math";

/** A citation by the server's rules: a small `s`, a `~` and any dash are accepted, because models write them. */
const CITATION = /\[~?\[s:([\d, \u2010-\u2014\u2212-]{1,249})\]\]/i;

const marked = new Marked({ gfm: true, breaks: false });

interface Citation extends Tokens.Generic {
  sids: number[];
}

interface Formula extends Tokens.Generic {
  tex: string;
  display: boolean;
}

marked.use({
  extensions: [
    {
      name: "citation",
      level: "inline",
      start: (text) => firstMatch(text, CITATION),
      tokenizer(text) {
        const found = CITATION.exec(text);
        const sids = found?.index === 0 ? sidsOf(found[1]!) : [];
        return found && sids.length ? { type: "citation", raw: found[0], sids } : undefined;
      },
      renderer: (token) => citation(token as Citation),
    },
    {
      name: "formula",
      level: "inline",
      start: (text) => firstOf(text, ["$", "\\(", "\\["]),
      tokenizer(text) {
        const display = /^\$\$([^$]+?)\$\$/.exec(text) ?? /^\\\[([\s\S]+?)\\\]/.exec(text);
        if (display) return { type: "formula", raw: display[0], tex: display[1]!, display: true };
        const inline = /^\$(?!\s)((?:\\.|[^\\$\n])+?)(?<!\s)\$(?!\d)/.exec(text) ?? /^\\\(([^\n]+?)\\\)/.exec(text);
        return inline ? { type: "formula", raw: inline[0], tex: inline[1]!, display: false } : undefined;
      },
      renderer: (token) => mathHtml((token as Formula).tex, (token as Formula).display),
    },
    {
      name: "formulaBlock",
      level: "block",
      start: (text) => firstOf(text, ["$$", "\\["]),
      tokenizer(text) {
        const found = /^\$\$([^$]+?)\$\$\s*(?:\n|$)/.exec(text) ?? /^\\\[([\s\S]+?)\\\]\s*(?:\n|$)/.exec(text);
        return found ? { type: "formulaBlock", raw: found[0], tex: found[1]!, display: true } : undefined;
      },
      renderer: (token) => `<div class="formula" tabindex="0" role="group" aria-label="Formula">${mathHtml((token as Formula).tex, true)}</div>`,
    },
  ],
  renderer: {
    html: ({ text }) => replaceInHtml(escape(text), (sids, raw) => citation({ type: "citation", raw, sids })),
    image: ({ href, text }) => link(href, escape(text || "image"), ""),
    link(this: RendererThis, { href, title, tokens, text }: Tokens.Link) {
      const number = /^\\?\[(\d{1,6})\\?\]$/.exec(text);
      if (number && knownSources.has(Number(number[1]))) return chip(Number(number[1]));
      return link(href, this.parser.parseInline(tokens), title ?? "");
    },
    table(this: RendererThis, token: Tokens.Table) {
      const cell = (one: Tokens.TableCell, tag: string) =>
        `<${tag}${one.align ? ` class="to-${one.align}"` : ""}>${this.parser.parseInline(one.tokens)}</${tag}>`;
      const head = token.header.map((one) => cell(one, "th")).join("");
      const rows = token.rows.map((row) => `<tr>${row.map((one) => cell(one, "td")).join("")}</tr>`).join("");
      return `<div class="table" tabindex="0" role="group" aria-label="Table"><table><thead><tr>${head}</tr></thead><tbody>${rows}</tbody></table></div>`;
    },
    checkbox: ({ checked }) => `<span class="check" role="img" aria-label="${checked ? "done" : "open"}">${checked ? "☑" : "☐"}</span> `,
  },
});

export function blocksOf(text: string): TokensList {
  return marked.lexer(text);
}

/** Return the text with each citation replaced. Citations in code stay. */
export function replaceCitations(text: string, replacement: (sids: number[], raw: string) => string): string {
  let result = "";
  let end = 0;
  void marked.walkTokens(blocksOf(text), (token) => {
    if (!["citation", "code", "codespan", "html"].includes(token.type)) return;
    const start = text.indexOf(token.raw, end);
    if (start < 0) return;
    const isCitation = token.type === "citation";
    const replaced = isCitation ? replacement((token as Citation).sids, token.raw) : token.type === "html" ? replaceInHtml(token.raw, replacement) : token.raw;
    result += text.slice(end, start) + replaced;
    end = start + token.raw.length;
  });
  return result + text.slice(end);
}

/** The sources of the conversation while `htmlOf` runs. A citation of an unknown source stays text. */
let knownSources: ReadonlyMap<number, unknown> = new Map();

// Each paragraph, list and cell has the direction of its own text. Inside a list the items follow the list.
DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  const isTop = node.parentNode?.nodeName === "BODY" && /^(?:P|H[1-6]|UL|OL|BLOCKQUOTE)$/.test(node.nodeName);
  if (isTop || node.nodeName === "TD" || node.nodeName === "TH") node.setAttribute("dir", "auto");
});

export function htmlOf(token: Token, sources: ReadonlyMap<number, unknown>): string {
  knownSources = sources;
  return DOMPurify.sanitize(marked.parser([token]), SANITIZE_OPTIONS);
}

const SANITIZE_OPTIONS = {
  USE_PROFILES: { html: true, mathMl: true },
  FORBID_ATTR: ["style", "id", "name"],
  FORBID_TAGS: ["style", "form", "input", "button", "textarea", "select", "img", "video", "audio", "picture", "source", "iframe", "object", "embed", "svg", "dialog"],
  ADD_ATTR: ["target", "data-sid", "tabindex", "encoding", "display", "displaystyle"],
  ADD_TAGS: ["semantics", "annotation"],
  // DOMPurify also applies this to attributes that are not URLs, so values without a scheme must pass.
  ALLOWED_URI_REGEXP: /^(?:(?:https?|mailto):|[^a-z]|[a-z+.-]+(?:[^a-z+.:-]|$))/i,
};

function link(href: string, inner: string, title: string): string {
  if (!/^(?:https?|mailto):/i.test(href)) return inner;
  return `<a href="${escape(href)}" target="_blank" rel="noopener noreferrer"${title ? ` title="${escape(title)}"` : ""}>${inner}</a>`;
}

/** Render known sources as chips. Unknown numbers stay in the written form. */
function citation({ raw, sids }: Citation): string {
  if (!sids.some((sid) => knownSources.has(sid))) return escape(raw);
  return sids.map((sid) => (knownSources.has(sid) ? chip(sid) : ` [[S:${sid}]]`)).join("");
}

function chip(sid: number): string {
  return `<span class="cite" role="button" tabindex="0" aria-haspopup="dialog" data-sid="${sid}" aria-label="Source ${sid}">${sid}</span>`;
}

/** Return the source ids of a citation by the server's rules: at most a hundred, no reversed ranges. */
function sidsOf(text: string): number[] {
  const sids: number[] = [];
  for (const part of text.split(",")) {
    const range = /^ *(\d{1,6}) *(?:[\u2010-\u2014\u2212-] *(\d{1,6}) *)?$/.exec(part);
    if (!range) return [];
    const first = Number(range[1]);
    const last = range[2] === undefined ? first : Number(range[2]);
    if (first < 1 || last < first || sids.length + last - first >= 100) return [];
    for (let sid = first; sid <= last; sid++) sids.push(sid);
  }
  return sids;
}

/** Replace the citations in HTML, which is shown as text. Those in preformatted text stay, as everywhere in code. */
function replaceInHtml(html: string, replacement: (sids: number[], raw: string) => string): string {
  if (/(?:<|&#60;)(?:pre|code|script|style|textarea|!--)/i.test(html)) return html;
  return html.replace(new RegExp(CITATION, "gi"), (raw, list: string) => {
    const sids = sidsOf(list);
    return sids.length ? replacement(sids, raw) : raw;
  });
}

export function escape(text: string): string {
  return text.replace(/[&<>"']/g, (one) => `&#${one.charCodeAt(0)};`);
}

function firstMatch(text: string, pattern: RegExp): number | undefined {
  const at = text.search(pattern);
  return at < 0 ? undefined : at;
}

function firstOf(text: string, all: string[]): number | undefined {
  const found = all.map((search) => text.indexOf(search)).filter((at) => at >= 0);
  return found.length ? Math.min(...found) : undefined;
}
