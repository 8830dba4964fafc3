/** Blocks as the server tells them, and the little that is read out of their JSON. */
export interface Block {
  type: string;
  author: string;
  turn_id?: string;
  ts: string;
  mime: string;
  path?: string;
  text?: string;
  base64?: string;
  meta?: Record<string, unknown>;
}

export interface Usage {
  input_tokens?: number;
  cache_read_tokens?: number;
  cache_write_tokens?: number;
  output_tokens?: number;
  cost_nano_usd?: number;
}

/** A JSON object out of a text that somebody else wrote; nothing where it is none. */
export function objectOf(text: string | undefined): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text ?? "");
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

/** A table by names that others choose: it has its rows, and not what every object has by itself. */
export function table<T>(rows: Record<string, T>): Record<string, T> {
  return Object.assign(Object.create(null) as Record<string, T>, rows);
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function said(value: unknown): string {
  return typeof value === "string" ? value : "";
}

export function figure(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) ? value : 0;
}

export function meta(block: Block, key: string): unknown {
  return block.meta?.[key];
}
