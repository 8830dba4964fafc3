/** Icons in the colour of the surrounding text. */
const PATHS = {
  plus: "M8 3v10M3 8h10",
  pin: "M5.500 2h5M6 2v4.500L4 9h8l-2-2.500V2M8 9v5",
  close: "M4 4l8 8M12 4l-8 8",
  menu: "M2.5 4h11M2.5 8h11M2.5 12h11",
  send: "M8 13V3M4 7l4-4 4 4",
  stop: "M4.5 4.5h7v7h-7z",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM10.7 10.7 14 14",
  clip: "M13 7.5 7.8 12.7a3 3 0 0 1-4.3-4.3l5.6-5.5a2 2 0 0 1 2.8 2.8l-5.4 5.4a.9.9 0 0 1-1.3-1.3L10 5",
  file: "M4 1.8h5L12.5 5v9.2H4zM8.8 2v3.3h3.5",
  book: "M2.5 3C5 2.3 6.800 2.600 8 4c1.200-1.400 3-1.700 5.500-1v9.500c-2.500-.7-4.300-.4-5.500 1-1.200-1.400-3-1.700-5.500-1zM8 4v9.500",
  loupe: "M2 4h7M2 8h5M2 12h7M12 4v8M10 6l2-2 2 2M10 10l2 2 2-2",
  more: "M3.500 8h.01M8 8h.01M12.500 8h.01",
  down: "M4 6l4 4 4-4",
  right: "M6 4l4 4-4 4",
  check: "M3 8.500 6.500 12 13 4.500",
  up: "M5 7.500 8 2c1.400 0 1.900 1 1.600 2.200L9.200 6H13l-1 7H5zM5 7.500H2.500V13H5",
  thumbsdown: "M11 8.500 8 14c-1.400 0-1.900-1-1.600-2.200L6.800 10H3l1-7h7zM11 8.500h2.500V3H11",
  fork: "M4.500 5v6M4.500 5a1.500 1.500 0 1 0 0-3 1.500 1.500 0 0 0 0 3zM4.500 14a1.500 1.500 0 1 0 0-3 1.500 1.500 0 0 0 0 3zM11.500 5a1.500 1.500 0 1 0 0-3 1.500 1.500 0 0 0 0 3zM11.500 5c0 3.500-7 2-7 6",
  download: "M8 2v8M4.500 7 8 10.500 11.500 7M3 13.500h10",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM8 1v1.500M8 13.500V15M1 8h1.500M13.500 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg viewBox="0 0 16 16" width="16" height="16" fill="none" stroke="currentColor" strokeWidth={name === "more" ? 2.2 : 1.5} strokeLinecap="round" strokeLinejoin="round" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
