/** A chart of the conversation: one column per round with its tokens, tool calls, context reductions and the total cost. */
import { memo, useMemo, type MouseEvent } from "react";
import { count, money } from "../app/format";
import { type Round, tokensOf } from "./rounds";

/** With fewer rounds than this, the rest of the chart stays empty, so that columns do not become too wide. */
const MIN_COLUMNS = 40;
const COLUMN = 10;
/** From this many rounds on, a gap between columns would be narrower than a pixel and only make them look pale. */
const DENSE = 200;
const BARS = 64;
const TOOLS = { top: 70, height: 5, max: 4 };
const HEIGHT = 96;

interface Props {
  rounds: Round[];
  chosen: Round | undefined;
  choose: (round: Round) => void;
}

export const TimelineStrip = memo(function TimelineStrip({ rounds, chosen, choose }: Props) {
  const chart = useMemo(() => draw(rounds), [rounds]);
  const width = Math.max(rounds.length, MIN_COLUMNS) * COLUMN;
  const onClick = (event: MouseEvent<SVGSVGElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    const round = rounds[Math.floor(((event.clientX - box.left) / box.width) * (width / COLUMN))];
    if (round) choose(round);
  };
  return (
    <figure className="strip">
      <svg viewBox={`0 0 ${width} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={chart.description} onClick={onClick}>
        <path className="strip-turns" d={chart.turns} />
        {chosen && <rect className="strip-chosen" x={chosen.at * COLUMN} y={0} width={COLUMN} height={HEIGHT} />}
        <path className="strip-reduced" d={chart.reduced} />
        <path className="strip-read" d={chart.read} />
        <path className="strip-written" d={chart.written} />
        <path className="strip-plain" d={chart.plain} />
        <path className="strip-tools" d={chart.tools} />
        <path className="strip-failed" d={chart.failed} />
        {chart.spent > 0 && <path className="strip-spend" d={chart.spend} vectorEffect="non-scaling-stroke" />}
      </svg>
      <figcaption>
        <span className="key key-read">read from cache</span>
        <span className="key key-written">written to cache</span>
        <span className="key key-plain">not cached</span>
        <span className="key key-tools">tool calls</span>
        {chart.reduced && <span className="key key-reduced">context reduced</span>}
        {chart.spent > 0 && <span className="key key-spend">total cost, {money(chart.spent)}</span>}
        {!chart.isReported && rounds.length > 0 && <span>estimated: the provider did not report its cache usage</span>}
      </figcaption>
    </figure>
  );
});

/** Build one path per kind, so that even a thousand rounds need only nine elements. */
function draw(rounds: Round[]) {
  const all = rounds.map(tokensOf);
  const tallest = all.reduce((highest, one) => Math.max(highest, one.read + one.written + one.plain), 1);
  const spent = rounds.at(-1)?.spent ?? 0;
  const gap = rounds.length < DENSE ? 1 : 0;
  const paths = { read: "", written: "", plain: "", tools: "", failed: "", reduced: "", turns: "", spend: "" };
  rounds.forEach((round, at) => {
    const x = at * COLUMN;
    let bottom = BARS;
    for (const kind of ["read", "written", "plain"] as const) {
      const height = (all[at]![kind] / tallest) * (BARS - 4);
      bottom -= height;
      if (height > 0) paths[kind] += bar(x + gap, bottom, COLUMN - 2 * gap, height);
    }
    round.tools.slice(0, TOOLS.max).forEach((_, n) => {
      paths[n < round.failed ? "failed" : "tools"] += bar(x + 2, TOOLS.top + n * (TOOLS.height + 1.5), COLUMN - 4, TOOLS.height);
    });
    if (round.reductions.length) paths.reduced += bar(x - 0.8, 0, 1.6, HEIGHT);
    if (at > 0 && rounds[at - 1]!.turnId !== round.turnId) paths.turns += bar(x - 0.3, 0, 0.6, HEIGHT);
    paths.spend += `${at ? "L" : "M"}${x + COLUMN / 2} ${(BARS - 2 - (round.spent / Math.max(1, spent)) * (BARS - 6)).toFixed(2)}`;
  });
  return { ...paths, spent, isReported: all.some((one) => one.isReported), description: describe(rounds) };
}

function bar(x: number, y: number, width: number, height: number): string {
  return `M${x} ${y.toFixed(2)}h${width}v${height.toFixed(2)}h${-width}z`;
}

function describe(rounds: Round[]): string {
  const sum = rounds.map(tokensOf).reduce((all, one) => ({ read: all.read + one.read, other: all.other + one.written + one.plain }), { read: 0, other: 0 });
  const reduced = rounds.filter((round) => round.reductions.length).length;
  const turns = new Set(rounds.map((round) => round.turnId)).size;
  return [
    `${plural(rounds.length, "model call")} in ${plural(turns, "turn")}`,
    `${count(sum.read)} tokens read from cache and ${count(sum.other)} other tokens`,
    `${plural(rounds.reduce((all, round) => all + round.tools.length, 0), "tool call")}`,
    ...(reduced ? [`context reduced before ${plural(reduced, "round")}`] : []),
    `${money(rounds.at(-1)?.spent ?? 0)} spent`,
  ].join(", ");
}

function plural(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}
