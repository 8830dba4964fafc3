/** What stands between the conversation and the panel beside it: drawn by the pointer, or moved by the arrows. */
import { useLayoutEffect, useRef, useState } from "react";

/** How far an arrow moves it. */
const STEP_PX = 24;
const NARROWEST_PX = 300;

interface Props {
  /** How wide the panel was asked to be; null while nobody did. */
  width: number | null;
  resize: (width: number | null) => void;
}

export function Divider({ width, resize }: Props) {
  const bar = useRef<HTMLDivElement>(null);
  const [shown, setShown] = useState(NARROWEST_PX);
  // What the panel has, which may be less than what was asked for.
  const actual = () => Math.round(bar.current?.parentElement?.getBoundingClientRect().width ?? NARROWEST_PX);
  useLayoutEffect(() => setShown(actual()), [width]);
  const key = (event: React.KeyboardEvent) => {
    const by = event.key === "ArrowLeft" ? STEP_PX : event.key === "ArrowRight" ? -STEP_PX : 0;
    if (!by) return;
    event.preventDefault();
    resize(Math.max(NARROWEST_PX, actual() + by));
  };
  return (
    <div
      ref={bar}
      className="divider"
      role="separator"
      aria-orientation="vertical"
      aria-label="Width of the panel"
      aria-valuemin={NARROWEST_PX}
      aria-valuenow={shown}
      tabIndex={0}
      title="Drag, or use the arrows; a double click sets it back"
      onKeyDown={key}
      onDoubleClick={() => resize(null)}
      onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
      onPointerMove={(event) => {
        if (event.currentTarget.hasPointerCapture(event.pointerId)) resize(Math.max(NARROWEST_PX, window.innerWidth - Math.round(event.clientX)));
      }}
    />
  );
}
