// A video's length as a bar of its shots, under the curve of scores that decided where they start.
import { area, drawing, percent, scoreLine } from "./charts.js";
import { make, shape, styled } from "./elements.js";
import { counted, number, timecode } from "./words.js";

const kCurve = 84, kHeight = 110; // the drawing is stretched sideways only: these are pixels
// Outcomes differ in height as well as in colour.
const kBars = { kept: 16, later: 12, filtered: 9, failed: 5, none: 2 };
const kEndNames = { later: "left out later", none: "without a clip" };
const endName = (end) => kEndNames[end] ?? end;

/** At most `most` steps. On narrow pages every second one and the one next to the end are hidden. */
function timeLabels(length, most) {
  if (!(length > 0 && length < 1e9)) return [];
  let step = [0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600].find((s) => length / s <= most) ?? 3600;
  while (length / step > most) step *= 2;
  const last = Math.floor(length / step), isAtEnd = (n) => n * step > 0.97 * length;
  return Array.from({ length: last + 1 }, (_, n) => {
    const label = timecode(n * step),
    place = n === 0 ? "x first" : isAtEnd(n) ? "x last"
        : last > 2 && (n % 2 || isAtEnd(n + 1)) ? "x odd" : "x";
    return styled(make("span", { class: place }, step < 1 ? label : label.slice(0, -2)),
        { left: percent((n * step) / length) });
  });
}

function shapes({ shots, scores, frames, fades }, top, threshold) {
  const x = (frame) => (1000 * frame) / frames, out = [];
  for (const [first, last] of fades)
    out.push(shape("rect", { class: "fade", x: x(first), y: 0, width: x(last - first), height: kHeight }));
  for (const { first, last, end } of shots)
    out.push(shape("rect",
    { class: end, x: x(first), y: kHeight - kBars[end], width: x(last - first), height: kBars[end] }));
  out.push(shape("path",
      { class: "cuts",
      d: shots.filter(({ first }) => first > 0).map(({ first }) => `M${x(first).toFixed(2)} 0V${kHeight}`).join("") }));
  if (!scores.length) return out;
  out.push(scoreLine(scores, top, 1000, kCurve));
  if (threshold !== null)
    out.push(shape("path", { class: "threshold", d: `M0 ${kCurve * (1 - threshold / top)}H1000` }));
  return out;
}

function legend({ shots, scores, fades }, highest, detector, threshold) {
  const key = (kind, text) => make("span", { class: `key key-${kind}` }, text);
  const line = scores.length ? [key("line", `${detector} score of each frame, at most ${number(highest)}`)] : [];
  if (scores.length && threshold !== null) line.push(key("threshold", `threshold ${number(threshold)}`));
  if (fades.length) line.push(key("fade", `${counted(fades.length, "fade")}, left out`));
  const ends = Object.keys(kBars).map((end) => [end,
      shots.filter((shot) => shot.end === end).length]).filter(([, n]) => n);
  return make("figcaption", {}, line,
      ends.map(([end, n]) => key(end, `${counted(n, "shot")} ${endName(end)}`)));
}

/** detector: name of the shot detector, or ""; threshold: its own, or null. */
export function timeline(video, detector, threshold) {
  const { shots, scores, frames } = video, seconds = (frame) => (video.fps > 0 ? frame / video.fps : 0);
  if (!shots.length) return [];
  const highest = scores.reduce((a, b) => Math.max(a, b), 0), top = Math.max(highest, 1.25 * (threshold ?? 0), 1e-9);
  const ofCut = (score) => (score === null ? "" : `, cut at score ${number(score)}`);
  const places = shots.map(({ first, last, end, score }, i) => ({
    at: first / frames,
    to: last / frames,
    text: `Shot ${i + 1} from ${timecode(seconds(first))}: ${endName(end)}${ofCut(score)}`,
  }));
  const box = scores.length ? drawing(1000, kHeight, 0, ...shapes(video, top, threshold))
      : drawing(1000, kBars.kept, kHeight - kBars.kept, ...shapes(video, top, threshold));
  const name = `Timeline of ${video.key}: ${counted(shots.length, "shot")} in ${timecode(seconds(frames))}; ` +
      `the highest score is ${number(highest)}`;
  return [make("figure", { class: scores.length ? "timeline" : "timeline bare" },
      legend(video, highest, detector, threshold),
      area(name, [box, ...timeLabels(seconds(frames), scores.length ? 8 : 4)], places))];
}
