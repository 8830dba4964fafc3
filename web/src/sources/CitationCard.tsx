/** The card of a citation: shown where somebody points at its chip, reaches it by the keyboard, or touches it. */
import { Popover } from "@base-ui/react/popover";
import { useEffect, useRef, useState } from "react";
import { usePage } from "../app/store";
import { SourceFacts, SourceLink } from "./SourceFacts";

/** Long enough not to open while the pointer only passes. */
const OPEN_MS = 120;
const CLOSE_MS = 200;

export function CitationCard() {
  const [chip, setChip] = useState<HTMLElement | null>(null);
  const [isOpen, setOpen] = useState(false);
  const card = useRef<HTMLDivElement>(null);
  const sid = Number(chip?.dataset["sid"] ?? 0);
  const source = usePage((state) => state.open?.timeline.sources.get(sid));

  useEffect(() => {
    let timer = 0;
    let at: HTMLElement | null = null;
    let isBack = false;
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
      // Whoever is there with the keyboard does not lose it to a pointer that moves.
      else if (!chipAt(document.activeElement) && !inCard(document.activeElement)) later(CLOSE_MS, () => setOpen(false));
    };
    const press = (event: Event) => {
      const found = chipAt(event.target);
      // What is opened from it comes in its place.
      if (event.target instanceof Element && event.target.closest(".card :is(a, button)")) later(0, () => setOpen(false));
      if (!found) return;
      event.preventDefault();
      openAt(found);
    };
    const focus = (event: FocusEvent) => {
      const found = chipAt(event.target);
      if (found && !isBack) openAt(found);
    };
    const blur = (event: FocusEvent) => {
      const isOurs = chipAt(event.target) !== null || inCard(event.target);
      if (isOurs && !chipAt(event.relatedTarget) && !inCard(event.relatedTarget)) setOpen(false);
    };
    const goBack = () => {
      isBack = true;
      at?.focus();
      isBack = false;
    };
    // The card stands at the end of the document, but comes after its chip for whoever goes on with Tab.
    const key = (event: KeyboardEvent) => {
      const isThere = inCard(event.target);
      if (!isThere && !chipAt(event.target)) return;
      if (event.key === "Escape" && card.current) {
        event.preventDefault();
        event.stopPropagation();
        goBack();
        setOpen(false);
      } else if (event.key === "Tab" && isThere) {
        if (event.shiftKey) event.preventDefault();
        goBack();
      } else if (event.key === "Tab" && !event.shiftKey) {
        const first = card.current?.querySelector<HTMLElement>("a, button");
        if (first) event.preventDefault();
        first?.focus();
      } else if (!isThere && (event.key === "Enter" || event.key === " ")) press(event);
    };
    const heard = { mouseover: over, click: press, focusin: focus, focusout: blur, keydown: key };
    for (const [name, act] of Object.entries(heard)) document.addEventListener(name, act as (event: Event) => void, true);
    return () => {
      window.clearTimeout(timer);
      for (const [name, act] of Object.entries(heard)) document.removeEventListener(name, act as (event: Event) => void, true);
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
