/** The card of a citation: shown where somebody points at its chip, reaches it by the keyboard, or touches it. */
import { Popover } from "@base-ui/react/popover";
import { useEffect, useState, type RefObject } from "react";
import { usePage } from "../app/store";
import { SourceFacts, SourceLink } from "./SourceFacts";

/** Long enough not to open while the pointer only passes. */
const OPEN_MS = 120;
const CLOSE_MS = 200;

export function CitationCard({ box }: { box: RefObject<HTMLDivElement | null> }) {
  const [chip, setChip] = useState<HTMLElement | null>(null);
  const [isOpen, setOpen] = useState(false);
  const sid = Number(chip?.dataset["sid"] ?? 0);
  const source = usePage((state) => state.open?.timeline.sources.get(sid));

  useEffect(() => {
    const flow = box.current;
    if (!flow) return undefined;
    let timer = 0;
    const later = (ms: number, act: () => void) => {
      window.clearTimeout(timer);
      timer = window.setTimeout(act, ms);
    };
    const openAt = (found: HTMLElement) => {
      setChip(found);
      setOpen(true);
    };
    const over = (event: Event) => {
      const found = chipAt(event.target);
      if (found) later(OPEN_MS, () => openAt(found));
      else if (!inCard(event.target)) later(CLOSE_MS, () => setOpen(false));
    };
    const press = (event: Event) => {
      const found = chipAt(event.target);
      if (!found || (event instanceof KeyboardEvent && event.key !== "Enter" && event.key !== " ")) return;
      event.preventDefault();
      window.clearTimeout(timer);
      openAt(found);
    };
    const keep = (event: Event) => inCard(event.target) && window.clearTimeout(timer);
    flow.addEventListener("mouseover", over);
    flow.addEventListener("click", press);
    flow.addEventListener("keydown", press);
    document.addEventListener("mouseover", keep);
    return () => {
      window.clearTimeout(timer);
      flow.removeEventListener("mouseover", over);
      flow.removeEventListener("click", press);
      flow.removeEventListener("keydown", press);
      document.removeEventListener("mouseover", keep);
    };
  }, [box]);

  return (
    <Popover.Root open={isOpen && chip !== null} onOpenChange={setOpen}>
      <Popover.Portal>
        <Popover.Positioner anchor={chip} side="top" sideOffset={6} collisionPadding={12} className="card-place">
          <Popover.Popup className="card" initialFocus={false} aria-label={`Source ${sid}`}>
            {source ? (
              <>
                <SourceFacts source={source} />
                <SourceLink source={source} />
              </>
            ) : (
              <p className="dim">No source has the number {sid}.</p>
            )}
          </Popover.Popup>
        </Popover.Positioner>
      </Popover.Portal>
    </Popover.Root>
  );
}

function chipAt(target: EventTarget | null): HTMLElement | null {
  return target instanceof Element ? target.closest<HTMLElement>(".cite") : null;
}

function inCard(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest(".card") !== null;
}
