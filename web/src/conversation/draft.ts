/** The unsent message: its key in the session storage, and the field it is written in. */
export function draftKey(conversation: string): string {
  return `timeloom.draft.${conversation}`;
}

/** Move the keyboard focus to the message field. */
export function focusComposer(): void {
  document.getElementById("composer")?.focus();
}
