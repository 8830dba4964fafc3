/** The route: the conversation's id in the URL after `#`, which browsers do not send to the server. */
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

export function navigate(conversation: string): void {
  window.location.hash = conversationHash(conversation);
}

export function conversationHash(conversation: string): string {
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
