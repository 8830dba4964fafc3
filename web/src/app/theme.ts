/** Light or dark theme: follows the system unless the user chose one. */
import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";

const KEY = "timeloom.theme";

export function startTheme(): void {
  setTheme(theme());
}

export function theme(): Theme {
  const stored = window.localStorage.getItem(KEY);
  return stored === "light" || stored === "dark" ? stored : "system";
}

export function setTheme(chosen: Theme): void {
  window.localStorage.setItem(KEY, chosen);
  if (chosen === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = chosen;
}

/** Whether the page is dark now, according to its computed style. */
export function useDark(): boolean {
  return useSyncExternalStore(onChange, () => getComputedStyle(document.documentElement).colorScheme === "dark");
}

function onChange(changed: () => void): () => void {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const chosen = new MutationObserver(changed);
  system.addEventListener("change", changed);
  chosen.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  return () => {
    system.removeEventListener("change", changed);
    chosen.disconnect();
  };
}
