/** Accepts files that are dropped anywhere on the page. Without it, the browser would open them instead of the page. */
import { useEffect, useRef, useState } from "react";

/** Call `onDrop` with dropped files, and return whether files are being dragged over the page. */
export function useFileDrop(onDrop: (files: File[]) => void): boolean {
  const [isDragging, setIsDragging] = useState(false);
  const callback = useRef(onDrop);
  useEffect(() => {
    callback.current = onDrop;
  });
  useEffect(() => {
    // An image of the page that the user drags counts as a file too, but must not be attached.
    let isOwn = false;
    const begin = () => (isOwn = true);
    const end = () => (isOwn = false);
    const over = (event: DragEvent) => {
      if (isOwn || !event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      setIsDragging(true);
    };
    // `relatedTarget` is the element that the pointer enters, or null if it leaves the window.
    const leave = (event: DragEvent) => event.relatedTarget === null && setIsDragging(false);
    const drop = (event: DragEvent) => {
      if (!event.dataTransfer?.files.length) return;
      event.preventDefault();
      setIsDragging(false);
      if (!isOwn) callback.current([...event.dataTransfer.files]);
    };
    // Browsers send no mousemove during a drag, so a mousemove means that the drag has ended elsewhere.
    const move = () => setIsDragging(false);
    const handlers = { dragstart: begin, dragend: end, dragenter: over, dragover: over, dragleave: leave, drop, mousemove: move };
    for (const [name, handler] of Object.entries(handlers)) window.addEventListener(name as "drop", handler);
    return () => {
      for (const [name, handler] of Object.entries(handlers)) window.removeEventListener(name as "drop", handler);
    };
  }, []);
  return isDragging;
}
