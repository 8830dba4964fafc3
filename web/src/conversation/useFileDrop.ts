/** Files that are dropped anywhere on the page: a browser would open them in its place. */
import { useEffect, useRef, useState } from "react";

/** Takes what is dropped; says whether files are being held over the page. */
export function useDrop(take: (files: File[]) => void): boolean {
  const [held, setHeld] = useState(false);
  const taking = useRef(take);
  useEffect(() => {
    taking.current = take;
  });
  useEffect(() => {
    // A picture of the page that is dragged is a file too, and nobody brings it.
    let isOwn = false;
    const begin = () => (isOwn = true);
    const end = () => (isOwn = false);
    const hold = (event: DragEvent) => {
      if (isOwn || !event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      setHeld(true);
    };
    // From one element to another it names that other one; out of the window, none.
    const letGo = (event: DragEvent) => event.relatedTarget === null && setHeld(false);
    const drop = (event: DragEvent) => {
      if (!event.dataTransfer?.files.length) return;
      event.preventDefault();
      setHeld(false);
      if (!isOwn) taking.current([...event.dataTransfer.files]);
    };
    // While something is held a browser tells of no other movement: whoever moves has let go elsewhere.
    const move = () => setHeld(false);
    const heard = { dragstart: begin, dragend: end, dragenter: hold, dragover: hold, dragleave: letGo, drop, mousemove: move };
    for (const [name, act] of Object.entries(heard)) window.addEventListener(name as "drop", act);
    return () => {
      for (const [name, act] of Object.entries(heard)) window.removeEventListener(name as "drop", act);
    };
  }, []);
  return held;
}
