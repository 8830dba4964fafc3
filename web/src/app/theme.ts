/** Light or dark: what the system says, until a person says otherwise. */
export type Theme = "system" | "light" | "dark";

const KEY = "timeloom.theme";

export function startTheme(): void {
  setTheme(theme());
}

export function theme(): Theme {
  const kept = window.localStorage.getItem(KEY);
  return kept === "light" || kept === "dark" ? kept : "system";
}

export function setTheme(chosen: Theme): void {
  window.localStorage.setItem(KEY, chosen);
  if (chosen === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = chosen;
}
