/** The whole conversation as a picture: a column for each round, with its tokens, tools, what was forgotten, and the spend. */
import { memo, useMemo, type MouseEvent } from "react";
import { count, money } from "../app/format";
import { type Round, tokensOf } from "./rounds";

/** Fewer rounds than this leave room, so that a column never becomes a wall. */
const FEWEST_COLUMNS = 40;
const COLUMN = 10;
/** From so many rounds on a gap between columns is narrower than a pixel, and would only make them pale. */
const DENSE = 200;
const BARS = 64;
const TOOLS = { top: 70, height: 5, most: 4 };
const HEIGHT = 96;

interface Props {
  rounds: Round[];
  chosen: Round | undefined;
  choose: (round: Round) => void;
}

export const Strip = memo(function Strip({ rounds, chosen, choose }: Props) {
  const drawn = useMemo(() => draw(rounds), [rounds]);
  const width = Math.max(rounds.length, FEWEST_COLUMNS) * COLUMN;
  const picked = (event: MouseEvent<SVGSVGElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    const round = rounds[Math.floor(((event.clientX - box.left) / box.width) * (width / COLUMN))];
    if (round) choose(round);
  };
  return (
    <figure className="strip">
      <svg viewBox={`0 0 ${width} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={drawn.words} onClick={picked}>
        <path className="strip-turns" d={drawn.turns} />
        {chosen && <rect className="strip-chosen" x={chosen.at * COLUMN} y={0} width={COLUMN} height={HEIGHT} />}
        <path className="strip-forgot" d={drawn.forgot} />
        <path className="strip-read" d={drawn.read} />
        <path className="strip-written" d={drawn.written} />
        <path className="strip-plain" d={drawn.plain} />
        <path className="strip-tools" d={drawn.tools} />
        <path className="strip-failed" d={drawn.failed} />
        {drawn.spent > 0 && <path className="strip-spend" d={drawn.spend} vectorEffect="non-scaling-stroke" />}
      </svg>
      <figcaption>
        <span className="key key-read">read from cache</span>
        <span className="key key-written">written to it</span>
        <span className="key key-plain">not cached</span>
        <span className="key key-tools">tools</span>
        {drawn.forgot && <span className="key key-forgot">forgotten</span>}
        {drawn.spent > 0 && <span className="key key-spend">spend, {money(drawn.spent)}</span>}
        {!drawn.isReported && rounds.length > 0 && <span>as expected: the provider told nothing of its cache</span>}
      </figcaption>
    </figure>
  );
});

/** A path for each kind, however many rounds there are: a thousand rounds are nine elements. */
function draw(rounds: Round[]) {
  const all = rounds.map(tokensOf);
  const most = all.reduce((highest, one) => Math.max(highest, one.read + one.written + one.plain), 1);
  const spent = rounds.at(-1)?.spent ?? 0;
  const gap = rounds.length < DENSE ? 1 : 0;
  const paths = { read: "", written: "", plain: "", tools: "", failed: "", forgot: "", turns: "", spend: "" };
  rounds.forEach((round, at) => {
    const x = at * COLUMN;
    let bottom = BARS;
    for (const kind of ["read", "written", "plain"] as const) {
      const height = (all[at]![kind] / most) * (BARS - 4);
      bottom -= height;
      if (height > 0) paths[kind] += bar(x + gap, bottom, COLUMN - 2 * gap, height);
    }
    round.tools.slice(0, TOOLS.most).forEach((_, n) => {
      paths[n < round.failed ? "failed" : "tools"] += bar(x + 2, TOOLS.top + n * (TOOLS.height + 1.5), COLUMN - 4, TOOLS.height);
    });
    if (round.forgot.length) paths.forgot += bar(x - 0.8, 0, 1.6, HEIGHT);
    if (at > 0 && rounds[at - 1]!.turnId !== round.turnId) paths.turns += bar(x - 0.3, 0, 0.6, HEIGHT);
    paths.spend += `${at ? "L" : "M"}${x + COLUMN / 2} ${(BARS - 2 - (round.spent / Math.max(1, spent)) * (BARS - 6)).toFixed(2)}`;
  });
  return { ...paths, spent, isReported: all.some((one) => one.isReported), words: told(rounds) };
}

function bar(x: number, y: number, width: number, height: number): string {
  return `M${x} ${y.toFixed(2)}h${width}v${height.toFixed(2)}h${-width}z`;
}

function told(rounds: Round[]): string {
  const sum = rounds.map(tokensOf).reduce((all, one) => ({ read: all.read + one.read, other: all.other + one.written + one.plain }), { read: 0, other: 0 });
  const forgot = rounds.filter((round) => round.forgot.length).length;
  const turns = new Set(rounds.map((round) => round.turnId)).size;
  return [
    `${some(rounds.length, "call")} of the model in ${some(turns, "turn")}`,
    `${count(sum.read)} tokens from the cache and ${count(sum.other)} others`,
    `${some(rounds.reduce((all, round) => all + round.tools.length, 0), "call")} of tools`,
    ...(forgot ? [`something was forgotten before ${some(forgot, "round")}`] : []),
    `${money(rounds.at(-1)?.spent ?? 0)} spent`,
  ].join(", ");
}

function some(many: number, what: string): string {
  return `${many} ${what}${many === 1 ? "" : "s"}`;
}
