// The funnel of a curation: how many videos and clips each step has, and what fell before it.
import { make, shape, styled } from "./elements.js";
import { count, counted } from "./words.js";

/** "1 video failed", "2 filtered", "9 left out by chosen", "1 rejected", "5 not asked for by where". */
function lossText(step, { by, count: n }) {
  if (step === "in shards" && by) return `${count(n)} not asked for by ${by}`;
  if (step === "chosen" && !by) return `${count(n)} rejected`;
  if (step === "clips") return `${counted(n, "video")} ${by}`;
  return by === "filtered" || by === "failed" ? `${count(n)} ${by}` : `${count(n)} left out${by ? ` by ${by}` : ""}`;
}

const nameOf = (name, n) => (n === 1 && /^(videos|inputs|clips)$/.test(name) ? name.slice(0, -1) : name);

/** A band that narrows, or widens, from one step's height to the next one's. */
function band(n, next, most) {
  const edge = (m) => 50 * (1 - Math.max(m / most, 0.02));
  const [a, b] = [edge(n), edge(next)];
  return shape("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" },
      shape("path", { d: `M0 ${a}H60L100 ${b}V${100 - b}L60 ${100 - a}H0Z` }));
}

/** steps: [{name, count, lost: [{by, count}], where}], as plugins/jobs/funnel/funnel.hpp has them.
 * link(step, by, children): the element that leads to a step, or to what fell before it if `by` is given. */
export function funnel(steps, link) {
  if (!steps.length) return null;
  const most = Math.max(1, ...steps.map((step) => step.count));
  return make("ol", { class: "funnel", "aria-label": "From videos to shards" },
      steps.map(({ name, count: n, lost }, i) =>
      styled(make("li", {}, band(n, steps[i + 1]?.count ?? n, most),
          link(name, undefined, [make("b", {}, count(n)), " ", nameOf(name, n)]),
          lost.map((loss) => link(name, loss.by, [lossText(name, loss)]))), { "--share": n / most })));
}
