/** The turns of a conversation. Only the newest are rendered; earlier ones follow when the user scrolls up. */
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { Icon } from "../app/Icon";
import { useAppStore } from "../app/appStore";
import { focusComposer } from "./draft";
import { LiveItems } from "./LiveItems";
import { TurnView } from "./TurnView";

/** How many turns are rendered at first and added by each scroll to the top. */
const TURNS_PER_PAGE = 12;
/** Within this distance from the end, the list stays scrolled to the end while it grows. */
const NEAR_END_PX = 120;

export function MessageList() {
  const open = useAppStore((state) => state.open)!;
  const { turns } = open.timeline;
  const [rendered, setRendered] = useState(TURNS_PER_PAGE);
  const box = useRef<HTMLDivElement>(null);
  const top = useRef<HTMLDivElement>(null);
  const isNearEnd = useRef(true);
  const [isScrolledUp, setIsScrolledUp] = useState(false);
  const heightBefore = useRef(0);
  const hidden = Math.max(0, turns.length - rendered);

  useEffect(() => {
    if (!hidden || !top.current) return undefined;
    const observer = new IntersectionObserver((entries) => {
      if (!entries.some((one) => one.isIntersecting) || !box.current || isNearEnd.current) return;
      heightBefore.current = box.current.scrollHeight - box.current.scrollTop;
      setRendered((before) => before + TURNS_PER_PAGE);
    }, { root: box.current, rootMargin: "600px 0px 0px 0px" });
    observer.observe(top.current);
    return () => observer.disconnect();
  }, [hidden]);

  useLayoutEffect(() => {
    if (box.current && heightBefore.current) box.current.scrollTop = box.current.scrollHeight - heightBefore.current;
    heightBefore.current = 0;
  }, [rendered]);

  useLayoutEffect(() => {
    // From here on, the list follows its end: a compaction takes a while.
    if (open.endRequests) isNearEnd.current = true;
  }, [open.endRequests]);

  useLayoutEffect(() => {
    if (isNearEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [open]);

  const onScroll = () => {
    const at = box.current;
    if (!at) return;
    isNearEnd.current = at.scrollHeight - at.scrollTop - at.clientHeight < NEAR_END_PX;
    setIsScrolledUp(!isNearEnd.current);
  };

  const jump = () => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
    focusComposer();
  };

  return (
    <div className="message-list" ref={box} onScroll={onScroll} tabIndex={0} role="region" aria-label="Messages">
      <div className="column">
        {hidden > 0 && (
          <div ref={top} className="earlier">
            <button type="button" className="quiet" onClick={() => setRendered((before) => before + TURNS_PER_PAGE)}>
              Show {hidden} earlier {hidden === 1 ? "turn" : "turns"}
            </button>
          </div>
        )}
        {turns.slice(hidden).map((turn) => (
          <TurnView key={turn.id} turn={turn} isLast={turn === turns.at(-1)} />
        ))}
        <LiveItems />
        {open.problem && (
          <div className="trouble" role="alert">
            <strong>Error.</strong> {open.problem}
          </div>
        )}
      </div>
      {isScrolledUp && (
        <div className="latest">
          <button type="button" onClick={jump}><Icon name="down" /> Jump to latest</button>
        </div>
      )}
    </div>
  );
}
