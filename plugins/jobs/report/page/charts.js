// Charts of the report and of the studio.
import { makeAxis } from "./axis.js";
import { make, shape, styled } from "./elements.js";
import { count, number } from "./words.js";

export const percent = (share) => `${100 * share}%`;

/** A drawing that is stretched to the space it has. */
export const drawing = (width, height, top, ...shapes) => shape("svg",
    { viewBox: `0 ${top} ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" }, ...shapes);

/** A line through places [x, y]. */
export const line = (places) => shape("path",
    { class: "curve", d: places.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("") });

/** The line of scores in equal steps over `width`, from 0 at `height` to `top` at 0. */
export const scoreLine = (scores, top, width,
    height) => line(scores.map((score, i) => [(width * (i + 0.5)) / scores.length,
    height * (1 - Math.min(Math.max(score / top, 0), 1))]));

/** One column of a histogram: n of all items, and how many of them are shown. largest: of all columns. */
export const column = (n, shown, largest) => [["i", n],
    ["b", shown]].map(([tag, m]) => styled(make(tag), { height: m ? `max(2px, ${percent(m / largest)})` : "0" }));

/** A chart's space with its drawing and labels. The pointer shows what is nearest: places: [{at, to, y, text}], shares
 * of the space. */
export function area(name, children, places) {
  const out = make("div", { class: "area" }, children), mark = make("div", { class: "mark" }, make("i")),
  reading = make("b", { class: "reading" });
  out.addEventListener("pointermove", (event) => {
    const box = out.getBoundingClientRect(), x = (event.clientX - box.left) / box.width;
    const far = ({ at, to = at }) => Math.max(at - x, x - to, 0);
    const place = places.reduce((best, other) => (far(other) < far(best) ? other : best), places[0]);
    if (!place) return;
    mark.className = place.to === undefined ? "mark" : "mark range";
    styled(mark, { left: percent(place.at), width: place.to === undefined ? "0" : percent(place.to - place.at) });
    styled(mark.firstChild, { top: percent(place.y ?? 0) });
    reading.textContent = place.text;
    out.append(mark, reading);
  });
  out.addEventListener("pointerleave", () => [mark, reading].forEach((element) => element.remove()));
  return make("div", { class: "frame", role: "img", "aria-label": name }, out);
}

/** A measured curve. by: what it counts, "step" of a training or "second" of a video. curve: {title, scale, points,
 * ends: [first, last], line: its local means or null, sigma: their width in points}, with places as [x, y]. */
export function plot(curve, isSmall, by = "step") {
  const { title, scale, points, sigma, ends: [first, last] } = curve, drawn = curve.line ?? points;
  const ys = points.map(([, y]) => y), isFromZero = scale === "from zero", highest = Math.max(...ys);
  const x = makeAxis(first[0], last[0], "linear", isSmall ? 3 : 6, false),
  y = makeAxis(Math.min(...ys), highest, scale, isSmall ? 3 : 5, true);
  const place = ([a, b]) => [1000 * x.at(a), 1000 * (1 - y.at(b))];
  const grid = shape("path",
      { class: "grid", d: y.ticks.map(({ at }) => `M0 ${(1000 * (1 - at)).toFixed(1)}H1000`).join("") });
  // A stroke of length 0 with round ends stays a round dot, however the drawing is stretched.
  const dots = shape("path",
      { class: points.length === 1 ? "dots alone" : "dots",
      d: curve.line || points.length === 1
      ? points.map((point) => `M${place(point).map((v) => v.toFixed(1)).join(" ")}h0`).join("") : "" });
  const rows = y.ticks.map(({ at, label }) => styled(make("span", { class: "y" }, label), { bottom: percent(at) }));
  const isShort = first[0] < last[0] && !(x.ticks.at(-1)?.at > 0.85); // no tick tells where the curve ends
  const ticks = isShort ? [...x.ticks, { at: x.at(last[0]), label: count(last[0]) }] : x.ticks;
  const columns = ticks.map(({ at, label }, i, { length }) => {
    const isLast = i + 1 === length, where = at > 0.95 ? "x last" : (length - i) % 2 ? "x" : "x odd";
    return styled(make("span", { class: where }, isLast ? `${by} ${label}` : label), { left: percent(at) });
  });
  const at = ([step, value]) => `${number(value, 4)} at ${by} ${count(step)}`;
  const readings =
      drawn.map(([step, value]) =>
      ({ at: x.at(step), y: 1 - y.at(value), text: `${by} ${count(step)}: ${number(value, 4)}` }));
  const about = [isFromZero ? `at most ${number(highest)}` : points.length === 1 ? number(highest)
      : `${number(drawn[0][1])} → ${number(drawn.at(-1)[1])}`];
  if (!isSmall && scale === "logarithmic") about.push("logarithmic scale");
  if (!isSmall && curve.line) about.push(`points: measured, line: their mean (Gaussian, σ = ${sigma} points)`);
  return make("figure", { class: isSmall ? "plot small" : "plot" },
      make("figcaption", {}, make("b", {}, title), ` ${about.join(" · ")}`),
    area(`${title} by ${by}: ${at(first)}, ${at(last)}`,
        [drawing(1000, 1000, 0, grid, dots, line(drawn.map(place))), ...rows, ...columns], readings));
}
