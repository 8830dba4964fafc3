/** Announces answers, errors and pending approvals to screen readers. */
import { useEffect, useRef, useState } from "react";
import { useAppStore } from "../app/appStore";
import type { Turn } from "../timeline/model";

export function Announcer() {
  const state = useAppStore((page) => page.open?.status?.state ?? "idle");
  const mayDecide = useAppStore((page) => page.open?.mayDecide ?? true);
  const problem = useAppStore((page) => page.open?.problem ?? "");
  const [message, setMessage] = useState("");
  const before = useRef(state);
  useEffect(() => {
    const was = before.current;
    before.current = state;
    // The permission may arrive after the state.
    if (state === was && state !== "waiting") return;
    if (state === "waiting") setMessage(mayDecide ? "The agent is waiting for your approval." : "The agent is waiting for an approver.");
    else if (state === "running") setMessage("");
    else if (state === "idle") setMessage(endMessage(useAppStore.getState().open?.timeline.turns.at(-1)));
  }, [state, mayDecide]);
  useEffect(() => {
    if (problem) setMessage("An error occurred. The details are at the end of the conversation.");
  }, [problem]);
  return <div className="sr" role="status" aria-live="polite" aria-label="Announcements">{message}</div>;
}

function endMessage(turn: Turn | undefined): string {
  if (!turn) return "";
  if (turn.reason === "stopped" || turn.reason === "cancelled") return "The turn was stopped.";
  const answered = turn.items.some((item) => item.kind === "answer");
  return answered ? "The answer is complete." : "Error: the turn ended without an answer. The reason is shown at the end of the turn.";
}
