/** The plan as a checklist with the current status of each step. */
import { table } from "../timeline/blocks";
import type { PlanItem } from "../timeline/model";

const STATUSES = table<{ sign: string; label: string }>({
  done: { sign: "✓", label: "done" },
  failed: { sign: "✗", label: "failed" },
  in_progress: { sign: "", label: "in progress" },
  pending: { sign: "", label: "pending" },
});

export function PlanView({ plan }: { plan: PlanItem }) {
  const done = plan.steps.filter((step) => step.status === "done").length;
  return (
    <div className="plan" role="group" aria-label="Plan">
      <header>
        <span>Plan</span>
        <span className="dim">{plan.change === "close" || plan.change === "replace" ? "closed" : `${done} of ${plan.steps.length}`}</span>
      </header>
      <ol>
        {plan.steps.map((step, at) => {
          const { sign, label } = STATUSES[step.status] ?? STATUSES["pending"]!;
          return (
            <li key={at} data-status={step.status}>
              <span className="step-sign" role="img" aria-label={label}>{sign}</span>
              <span>{step.text}</span>
            </li>
          );
        })}
      </ol>
    </div>
  );
}
