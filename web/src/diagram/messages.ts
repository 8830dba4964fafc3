/** What the page and the frame that draws say to each other, and how much of it. */
export interface Asked {
  id: number;
  text: string;
  dark: boolean;
}

export interface Drawn {
  id: number;
  svg: string;
}

export const MAX_CHARS = 20_000;
export const MAX_SVG_CHARS = 2_000_000;
