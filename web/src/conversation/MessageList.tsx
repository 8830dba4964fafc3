/** The flow of a conversation: the newest turns are drawn, earlier ones when somebody scrolls up to them. */
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { Icon } from "../app/Icon";
import { usePage } from "../app/store";
import { focusComposer } from "./draft";
import { LiveItems } from "./LiveItems";
import { TurnView } from "./TurnView";

const DRAWN = 12;
/** How near to its end a flow must be to be kept there while it grows. */
const NEAR_PX = 120;

export function Flow() {
  const open = usePage((state) => state.open)!;
  const { turns } = open.timeline;
  const [drawn, setDrawn] = useState(DRAWN);
  const box = useRef<HTMLDivElement>(null);
  const top = useRef<HTMLDivElement>(null);
  const isNear = useRef(true);
  const [isAway, setIsAway] = useState(false);
  const heightBefore = useRef(0);
  const hidden = Math.max(0, turns.length - drawn);

  useEffect(() => {
    if (!hidden || !top.current) return undefined;
    const watch = new IntersectionObserver((seen) => {
      if (!seen.some((one) => one.isIntersecting) || !box.current || isNear.current) return;
      heightBefore.current = box.current.scrollHeight - box.current.scrollTop;
      setDrawn((before) => before + DRAWN);
    }, { root: box.current, rootMargin: "600px 0px 0px 0px" });
    watch.observe(top.current);
    return () => watch.disconnect();
  }, [hidden]);

  useLayoutEffect(() => {
    if (box.current && heightBefore.current) box.current.scrollTop = box.current.scrollHeight - heightBefore.current;
    heightBefore.current = 0;
  }, [drawn]);

  useLayoutEffect(() => {
    if (isNear.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [open]);

  const scrolled = () => {
    const at = box.current;
    if (!at) return;
    isNear.current = at.scrollHeight - at.scrollTop - at.clientHeight < NEAR_PX;
    setIsAway(!isNear.current);
  };

  const jump = () => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
    focusComposer();
  };

  return (
    <div className="flow" ref={box} onScroll={scrolled} tabIndex={0} role="region" aria-label="Messages">
      <div className="column">
        {hidden > 0 && (
          <div ref={top} className="earlier">
            <button type="button" className="quiet" onClick={() => setDrawn((before) => before + DRAWN)}>
              {hidden} earlier {hidden === 1 ? "turn" : "turns"}
            </button>
          </div>
        )}
        {turns.slice(hidden).map((turn) => (
          <TurnView key={turn.id} turn={turn} isLast={turn === turns.at(-1)} />
        ))}
        <LiveItems />
        {open.problem && (
          <div className="trouble" role="alert">
            <strong>This does not go on.</strong> {open.problem}
          </div>
        )}
      </div>
      {isAway && (
        <div className="latest">
          <button type="button" onClick={jump}><Icon name="down" /> Jump to latest</button>
        </div>
      )}
    </div>
  );
}
