/** Tells who cannot see the page that an answer is there, that something went wrong, or that a decision is waited for. */
import { useEffect, useRef, useState } from "react";
import { usePage } from "../app/store";
import type { Turn } from "../timeline/model";

export function Announcer() {
  const state = usePage((page) => page.open?.status?.state ?? "idle");
  const problem = usePage((page) => page.open?.problem ?? "");
  const [words, setWords] = useState("");
  const before = useRef(state);
  useEffect(() => {
    const was = before.current;
    before.current = state;
    if (state === was) return;
    if (state === "waiting") setWords("The agent asks for your decision.");
    else if (state === "running") setWords("");
    else if (state === "idle") setWords(endOf(usePage.getState().open?.timeline.turns.at(-1)));
  }, [state]);
  useEffect(() => {
    if (problem) setWords("There is a problem: the turn does not go on.");
  }, [problem]);
  return <div className="sr" role="status" aria-live="polite" aria-label="Announcements">{words}</div>;
}

function endOf(turn: Turn | undefined): string {
  if (!turn) return "";
  if (turn.reason === "stopped" || turn.reason === "cancelled") return "The turn was ended.";
  const answered = turn.items.some((item) => item.kind === "answer");
  return answered ? "The answer is complete." : "There is a problem: the turn ended without an answer, and says why.";
}
