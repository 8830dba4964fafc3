/** The plan as a checklist that is always as it stands now. */
import { table } from "../timeline/blocks";
import type { PlanItem } from "../timeline/model";

const SIGNS = table<{ sign: string; word: string }>({
  done: { sign: "✓", word: "done" },
  failed: { sign: "✗", word: "failed" },
  in_progress: { sign: "", word: "in progress" },
  pending: { sign: "", word: "open" },
});

export function PlanView({ plan }: { plan: PlanItem }) {
  const done = plan.steps.filter((step) => step.status === "done").length;
  return (
    <div className="plan" role="group" aria-label="Plan">
      <header>
        <span>Plan</span>
        <span className="dim">{plan.change === "close" || plan.change === "replace" ? "ended" : `${done} of ${plan.steps.length}`}</span>
      </header>
      <ol>
        {plan.steps.map((step, at) => {
          const { sign, word } = SIGNS[step.status] ?? SIGNS["pending"]!;
          return (
            <li key={at} data-status={step.status}>
              <span className="step-sign" role="img" aria-label={word}>{sign}</span>
              <span>{step.text}</span>
            </li>
          );
        })}
      </ol>
    </div>
  );
}
