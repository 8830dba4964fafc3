/** The messages between the page and the diagram frame, and their size limits. */
export interface DrawRequest {
  id: number;
  text: string;
  dark: boolean;
}

export interface DrawResult {
  id: number;
  /** Empty if the text cannot be drawn. */
  svg: string;
}

export const MAX_CHARS = 20_000;
export const MAX_SVG_CHARS = 2_000_000;
