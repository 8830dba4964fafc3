/** Where the page is: the conversation behind the `#`, which no server ever sees. */
import { useSyncExternalStore } from "react";

export function useRoute(): string {
  return useSyncExternalStore(
    (changed) => {
      window.addEventListener("hashchange", changed);
      return () => window.removeEventListener("hashchange", changed);
    },
    () => conversationIn(window.location.hash),
  );
}

export function go(conversation: string): void {
  window.location.hash = link(conversation);
}

export function link(conversation: string): string {
  return conversation ? `#/c/${encodeURIComponent(conversation)}` : "#/";
}

function conversationIn(hash: string): string {
  const found = /^#\/c\/([^/]+)$/.exec(hash);
  try {
    return found?.[1] ? decodeURIComponent(found[1]) : "";
  } catch {
    return "";
  }
}
