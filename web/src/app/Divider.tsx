/** The draggable edge between the conversation and the side panel. The arrow keys move it too. */
import { useLayoutEffect, useRef, useState } from "react";

/** How far one press of an arrow key moves the edge. */
const STEP_PX = 24;
const MIN_WIDTH_PX = 300;

interface Props {
  /** The width that the user chose; null for the default width. */
  width: number | null;
  resize: (width: number | null) => void;
}

export function Divider({ width, resize }: Props) {
  const bar = useRef<HTMLDivElement>(null);
  const [current, setCurrent] = useState(MIN_WIDTH_PX);
  // The current width, which may be less than the chosen one.
  const actual = () => Math.round(bar.current?.parentElement?.getBoundingClientRect().width ?? MIN_WIDTH_PX);
  useLayoutEffect(() => setCurrent(actual()), [width]);
  const key = (event: React.KeyboardEvent) => {
    const by = event.key === "ArrowLeft" ? STEP_PX : event.key === "ArrowRight" ? -STEP_PX : 0;
    if (!by) return;
    event.preventDefault();
    resize(Math.max(MIN_WIDTH_PX, actual() + by));
  };
  return (
    <div
      ref={bar}
      className="divider"
      role="separator"
      aria-orientation="vertical"
      aria-label="Panel width"
      aria-valuemin={MIN_WIDTH_PX}
      aria-valuenow={current}
      tabIndex={0}
      title="Drag or use the arrow keys to resize. Double-click to reset."
      onKeyDown={key}
      onDoubleClick={() => resize(null)}
      onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
      onPointerMove={(event) => {
        if (event.currentTarget.hasPointerCapture(event.pointerId)) resize(Math.max(MIN_WIDTH_PX, window.innerWidth - Math.round(event.clientX)));
      }}
    />
  );
}
