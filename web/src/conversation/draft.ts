/** Where a browser keeps what was not sent yet, and where it is written. */
export function draftKey(conversation: string): string {
  return `timeloom.draft.${conversation}`;
}

/** Puts the keyboard where the next message is written. */
export function focusComposer(): void {
  document.getElementById("composer")?.focus();
}
