// Measured scores of a curate job: a histogram of each, with the bounds that stages and select jobs used.
import { area, drawing } from "./charts.js";
import { make, shape } from "./elements.js";
import { eachJob, section } from "./parts.js";
import { count, counted, number, withUnit } from "./words.js";

const sideText = ({ is_most: isMost, is_strict: isStrict }) =>
    (isStrict ? (isMost ? "less than" : "more than") : isMost ? "at most" : "at least");

/** Where a value is on the axis, 0 to 1. Halves, since the difference of two numbers may be infinite. */
function placeOf({ from, to }, value) {
  if (!(to / 2 > from / 2)) return value < from ? 0 : value > to ? 1 : 0.5;
  return Math.min(Math.max((value / 2 - from / 2) / (to / 2 - from / 2), 0), 1);
}

const titleOf = ({ title, name }) => title || name;
const textOf = ({ unit }, value) => withUnit(value, unit);

/** "at least 20 is kept: 12 filtered", "more than 20 in good: 30 left out". */
function boundLine(score, { by, is_select: isSelect, removed, value, ...side }) {
  const what = `${sideText(side)} ${textOf(score, value)}`;
  return make("p", {},
      isSelect ? `${what} in ${by}: ${count(removed)} left out` : `${what} is kept: ${count(removed)} filtered`);
}

function histogram(score) {
  const { bars, out, low, high, median, bounds } = score, width = 1000 / bars.length, largest = Math.max(...bars);
  const rects = (counts, kind) => counts.flatMap((n, i) => {
    const height = n ? Math.max((1000 * n) / largest, 25) : 0; // few clips of many are still seen
    return n ? [shape("rect", { class: kind, x: (i + 0.05) * width, width: 0.9 * width, y: 1000 - height, height })]
        : [];
  });
  const lines = bounds.map(({ value }) => shape("path",
      { class: "threshold", d: `M${(1000 * placeOf(score, value)).toFixed(1)} 0V1000` }));
  const edge = (i) => number(score.from * (1 - i / bars.length) + score.to * (i / bars.length));
  const isSingle = bars.length === 1, isWhole = score.from < low;
  const rangeOf = (i) => (isSingle ? number(low) : isWhole ? number(low + i) : `${edge(i)} to ${edge(i + 1)}`);
  const places = bars.map((n,
      i) => ({ at: i / bars.length, to: (i + 1) / bars.length,
      text: `${rangeOf(i)}: ${count(n)}${out[i] ? `, ${count(out[i])} filtered` : ""}` }));
  const text = (value) => textOf(score, value);
  const name = `${titleOf(score)}: ${text(low)} to ${text(high)}, median ${text(median)}`;
  const ends = isSingle ? [make("span", { class: "x middle" }, number(low))]
      : [make("span", { class: "x first" }, number(low)), make("span", { class: "x end" }, number(high))];
  return area(name, [drawing(1000, 1000, 0, ...rects(bars, "all"), ...rects(out, "filtered"), ...lines), ...ends],
      places);
}

function figure(score) {
  return make("figure", { class: "score" },
      make("figcaption", {}, make("b", {}, titleOf(score)), score.title ? ` ${score.name}` : null,
      make("span", { class: "more" }, `median ${textOf(score, score.median)} · ${counted(score.values, "clip")}`)),
    histogram(score), score.bounds.map((bound) => boundLine(score, bound)));
}

export const scores = (jobs) => {
  const measured = jobs.filter((job) => job.scores?.length);
  return section("scores", "Measured scores",
      eachJob(measured, (job) => [make("div", { class: "scores" }, job.scores.map(figure))]));
};
