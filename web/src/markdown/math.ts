/** Renders formulas with KaTeX as MathML, which needs neither fonts nor styles. Until KaTeX is loaded, the TeX source is shown. */
import { useSyncExternalStore } from "react";
import { escape } from "./parse";

type Katex = (typeof import("katex"))["default"];

let katex: Katex | null = null;
let isLoading = false;
const listeners = new Set<() => void>();

export function mathHtml(tex: string, display: boolean): string {
  if (!katex) {
    load();
    return `<code class="tex">${escape(tex)}</code>`;
  }
  const html = katex.renderToString(tex, { output: "mathml", displayMode: display, throwOnError: false, trust: false, maxExpand: 200, maxSize: 20 });
  return html.includes("katex-error") ? `<code class="tex">${escape(tex)}</code>` : html;
}

/** Whether KaTeX is loaded. Components that use this hook re-render when it is. */
export function useMath(): boolean {
  return useSyncExternalStore(
    (changed) => {
      listeners.add(changed);
      return () => listeners.delete(changed);
    },
    () => katex !== null,
  );
}

function load(): void {
  if (isLoading) return;
  isLoading = true;
  void import("katex").then((loaded) => {
    katex = loaded.default;
    listeners.forEach((changed) => changed());
  });
}
