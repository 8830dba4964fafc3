/** The messages between a page and the frame of a widget; docs/how-to/add-a-widget.md describes them. */

/** Sent when the frame has loaded, and whenever its text is another one. */
export interface StateMessage {
  type: "timeloom.state";
  channel: string;
  mime: string;
  text: string;
  /** False while the model still writes. */
  complete: boolean;
  dark: boolean;
}

/** Sent while the model writes: the text goes on. */
export interface DeltaMessage {
  type: "timeloom.delta";
  text: string;
}

export const MIN_HEIGHT = 40;
export const MAX_HEIGHT = 1200;

/** Return the height that a widget reports; null for every other message. */
export function reportedHeight(data: unknown): number | null {
  if (typeof data !== "object" || data === null) return null;
  const { type, height } = data as { type?: unknown; height?: unknown };
  if (type !== "timeloom.height" || typeof height !== "number" || !Number.isFinite(height)) return null;
  return Math.min(MAX_HEIGHT, Math.max(MIN_HEIGHT, Math.ceil(height)));
}
