// Measured scores of a curate job: a histogram of each, with the bounds that stages and select jobs used.
import { area, drawing } from "./charts.js";
import { make, shape } from "./elements.js";
import { eachJob, section } from "./parts.js";
import { scaleOf } from "./scale.js";
import { count, counted, number, ruleTitles, scoreText, withUnit } from "./words.js";

const kBarWidth = 28; // of 1000; no histogram has more than 32 bars

const sideText = ({ is_most: isMost, is_strict: isStrict }) =>
    (isStrict ? (isMost ? "less than" : "more than") : isMost ? "at most" : "at least");

/** Where a value is on the axis, 0 to 1. Halves, since the difference of two numbers may be infinite. */
function placeOf({ from, to, edges, bars }, value) {
  if (edges.length) return Math.min(Math.max(scaleOf({ low: from, high: to, edges, all: bars }).at(value), 0), 1);
  if (!(to / 2 > from / 2)) return value < from ? 0 : value > to ? 1 : 0.5;
  return Math.min(Math.max((value / 2 - from / 2) / (to / 2 - from / 2), 0), 1);
}

const namedOf = ({ title, name }) => title || ruleTitles.get(name);
const titleOf = (score) => namedOf(score) || score.name;
const isLength = ({ name }) => name === "clip.too-short";
/** A length has the digits that tell it from the bounds. */
function textOf({ unit, name, bounds }, value) {
  if (!isLength({ name }) || !(value >= 0)) return withUnit(value, unit);
  return scoreText(name, value, bounds.filter((one) => one.value !== value).map((one) => ["", one.value]));
}

/** "at least 20 is kept: 12 filtered", "more than 20 in good: 30 left out". */
function boundLine(score, { by, is_select: isSelect, removed, value, ...side }) {
  const what = `${sideText(side)} ${textOf(score, value)}`;
  return make("p", {},
      isSelect ? `${what} in ${by}: ${count(removed)} left out` : `${what} is kept: ${count(removed)} filtered`);
}

function histogram(score) {
  const { bars, out, low, high, median, bounds, edges } = score, step = 1000 / bars.length, largest = Math.max(...bars);
  const rects = (counts, kind) => counts.flatMap((n, i) => {
    const height = n ? Math.max((1000 * n) / largest, 25) : 0; // few clips of many are still seen
    const x = (i + 0.5) * step - kBarWidth / 2;
    return n ? [shape("rect", { class: kind, x, width: kBarWidth, y: 1000 - height, height })] : [];
  });
  const lines = bounds.map(({ value }) => shape("path",
      { class: "threshold", d: `M${(1000 * placeOf(score, value)).toFixed(1)} 0V1000` }));
  const edge = (i) => number(edges[i] ?? score.from * (1 - i / bars.length) + score.to * (i / bars.length));
  const isSingle = bars.length === 1, isWhole = score.from < low;
  const rangeOf = (i) => (isSingle ? number(low) : isWhole ? number(low + i) : `${edge(i)} to ${edge(i + 1)}`);
  const places = bars.map((n,
      i) => ({ at: i / bars.length, to: (i + 1) / bars.length,
      text: `${rangeOf(i)}: ${count(n)}${out[i] ? `, ${count(out[i])} filtered` : ""}` }));
  const text = (value) => textOf(score, value), end = isLength(score) ? text : number;
  const name = `${titleOf(score)}: ${text(low)} to ${text(high)}, median ${text(median)}`;
  const ends = isSingle ? [make("span", { class: "x middle" }, end(low))]
      : [make("span", { class: "x first" }, end(low)),
      edges.length ? make("span", { class: "x middle", title: "Logarithmic scale" }, "log") : null,
      make("span", { class: "x end" }, end(high))];
  return area(name, [drawing(1000, 1000, 0, ...rects(bars, "all"), ...rects(out, "filtered"), ...lines), ...ends],
      places);
}

function figure(score) {
  return make("figure", { class: "score" },
      make("figcaption", {}, make("b", {}, titleOf(score)), namedOf(score) ? ` ${score.name}` : null,
      make("span", { class: "more" }, `median ${textOf(score, score.median)} · ${counted(score.values, "clip")}`)),
    histogram(score), score.bounds.map((bound) => boundLine(score, bound)));
}

export const scores = (jobs) => {
  const measured = jobs.filter((job) => job.scores?.length);
  return section("scores", "Measured scores",
      eachJob(measured, (job) => [make("div", { class: "scores" }, job.scores.map(figure))]));
};
