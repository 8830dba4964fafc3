/** The card of a citation. It opens when its chip is hovered, focused or tapped. */
import { Popover } from "@base-ui/react/popover";
import { useEffect, useRef, useState } from "react";
import { useAppStore } from "../app/appStore";
import { SourceFacts, SourceLink } from "./SourceFacts";

/** Long enough that the card does not open while the pointer passes over a chip. */
const OPEN_MS = 120;
const CLOSE_MS = 200;

export function CitationCard() {
  const [chip, setChip] = useState<HTMLElement | null>(null);
  const [isOpen, setOpen] = useState(false);
  const card = useRef<HTMLDivElement>(null);
  const sid = Number(chip?.dataset["sid"] ?? 0);
  const source = useAppStore((state) => state.open?.timeline.sources.get(sid));

  useEffect(() => {
    let timer = 0;
    let at: HTMLElement | null = null;
    let isReturningFocus = false;
    const later = (ms: number, act: () => void) => {
      window.clearTimeout(timer);
      timer = window.setTimeout(act, ms);
    };
    const openAt = (found: HTMLElement) => {
      window.clearTimeout(timer);
      at = found;
      setChip(found);
      setOpen(true);
    };
    const over = (event: Event) => {
      const found = chipAt(event.target);
      if (found) later(OPEN_MS, () => openAt(found));
      else if (inCard(event.target)) window.clearTimeout(timer);
      // A moving pointer does not close a card that has the keyboard focus.
      else if (!chipAt(document.activeElement) && !inCard(document.activeElement)) later(CLOSE_MS, () => setOpen(false));
    };
    const press = (event: Event) => {
      const found = chipAt(event.target);
      // A link or button in the card opens something else, so the card closes.
      if (event.target instanceof Element && event.target.closest(".card :is(a, button)")) later(0, () => setOpen(false));
      if (!found) return;
      event.preventDefault();
      openAt(found);
    };
    const focus = (event: FocusEvent) => {
      const found = chipAt(event.target);
      if (found && !isReturningFocus) openAt(found);
    };
    const blur = (event: FocusEvent) => {
      const isOurs = chipAt(event.target) !== null || inCard(event.target);
      if (isOurs && !chipAt(event.relatedTarget) && !inCard(event.relatedTarget)) setOpen(false);
    };
    const returnFocus = () => {
      isReturningFocus = true;
      at?.focus();
      isReturningFocus = false;
    };
    // The card is at the end of the document. This handler puts it after its chip in the tab order.
    const key = (event: KeyboardEvent) => {
      const isInCard = inCard(event.target);
      if (!isInCard && !chipAt(event.target)) return;
      if (event.key === "Escape" && card.current) {
        event.preventDefault();
        event.stopPropagation();
        returnFocus();
        setOpen(false);
      } else if (event.key === "Tab" && isInCard) {
        if (event.shiftKey) event.preventDefault();
        returnFocus();
      } else if (event.key === "Tab" && !event.shiftKey) {
        const first = card.current?.querySelector<HTMLElement>("a, button");
        if (first) event.preventDefault();
        first?.focus();
      } else if (!isInCard && (event.key === "Enter" || event.key === " ")) press(event);
    };
    const handlers = { mouseover: over, click: press, focusin: focus, focusout: blur, keydown: key };
    for (const [name, handler] of Object.entries(handlers)) document.addEventListener(name, handler as (event: Event) => void, true);
    return () => {
      window.clearTimeout(timer);
      for (const [name, handler] of Object.entries(handlers)) document.removeEventListener(name, handler as (event: Event) => void, true);
    };
  }, []);

  return (
    <Popover.Root open={isOpen && chip?.isConnected === true} onOpenChange={setOpen}>
      <Popover.Portal>
        <Popover.Positioner anchor={chip} side="top" sideOffset={6} collisionPadding={12} className="card-place">
          <Popover.Popup ref={card} className="card" initialFocus={false} finalFocus={false} aria-label={`Source ${sid}`}>
            {source ? (
              <>
                <SourceFacts source={source} />
                <SourceLink source={source} />
              </>
            ) : (
              <p className="dim">Source {sid} does not exist.</p>
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
