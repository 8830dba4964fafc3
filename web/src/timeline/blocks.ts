/** Blocks as the server sends them, and functions that read their JSON safely. */
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

/** Parse untrusted text as a JSON object. Return an empty object if it is not one. */
export function objectOf(text: string | undefined): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text ?? "");
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

/** Return a lookup table without inherited properties, so that an untrusted key such as `constructor` finds nothing. */
export function table<T>(rows: Record<string, T>): Record<string, T> {
  return Object.assign(Object.create(null) as Record<string, T>, rows);
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function asString(value: unknown): string {
  return typeof value === "string" ? value : "";
}

export function asNumber(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) ? value : 0;
}

export function meta(block: Block, key: string): unknown {
  return block.meta?.[key];
}
