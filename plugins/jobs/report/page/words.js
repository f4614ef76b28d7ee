// Numbers as a reader wants them. A number and its unit are joined by a no-break space.
const kSpace = "\u00A0";
const fixed = (value, least, most = least) => value.toLocaleString("en",
    { minimumFractionDigits: least, maximumFractionDigits: most });
const two = (n) => String(n).padStart(2, "0");

/** To one decimal; halves go up, as in plugins/jobs/data/words.hpp: 1.25 s is 1.3 s wherever it stands. */
export const tenths = (seconds) => Math.round(10 * seconds) / 10;

/** 12,345 */
export const count = (n) => n.toLocaleString("en");

/** "1 clip", "2 clips" */
export const counted = (n, one) => `${count(n)}${kSpace}${one}${n === 1 ? "" : "s"}`;

/** 10⁻³ */
export const powerOfTen = (exponent) => "10" + String(exponent).replace(/./g,
    (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]));

/** Significant digits: 0.0123, 1,234, 3×10⁻⁷ */
export function number(value, digits = 3) {
  if (value === 0) return "0";
  const exponent = Math.floor(Math.log10(Math.abs(value)) + 1e-12);
  if (exponent < -4 || exponent > 14) return `${fixed(value / 10 ** exponent, 0, digits - 1)}×${powerOfTen(exponent)}`;
  return fixed(value, 0, Math.max(0, digits - 1 - exponent));
}

/** 0.08 s, 4.0 s, 3 min 20 s, 1 h 04 min */
export function duration(seconds) {
  if (!(seconds >= 0 && seconds < 9e15)) return "unknown";
  if (seconds < 0.95) return `${number(seconds, 2)}${kSpace}s`;
  if (seconds < 59.95) return `${fixed(tenths(seconds), 1)}${kSpace}s`;
  const s = Math.round(seconds);
  if (s < 3600) return `${Math.floor(s / 60)}${kSpace}min${kSpace}${two(s % 60)}${kSpace}s`;
  return `${count(Math.floor(s / 3600))}${kSpace}h${kSpace}${two(Math.floor(s / 60) % 60)}${kSpace}min`;
}

/** A measured value: 20, 1.5 dB; seconds are a duration. */
export const withUnit = (value, unit) => (unit === "s" && value >= 0 ? duration(value)
    : number(value) + (unit && `${kSpace}${unit}`));

/** Titles of what rules measure and no stage names. */
export const ruleTitles = new Map([["clip.too-short", "Length of the shot"],
    ["clip.too-few-frames", "Frames of the shot"]]);

/** The score by which a rule filters. A length is a duration, with more digits where it would read as a bound, of which
 * each is [kind, value]. */
export function scoreText(rule, score, bounds) {
  if (rule !== "clip.too-short") return number(score);
  const isTold = (text) => !bounds.some(([, bound]) => text(bound) === text(score));
  const digits = isTold(duration) ? 0 : [3, 4, 5].find((n) => isTold((value) => number(value, n))) ?? 6;
  return digits ? `${number(score, digits)}${kSpace}s` : duration(score);
}

/** "at least 2.0 s": the bound of a rule. */
export const ruleBound = (rule, [kind, value]) => `${kind} ${scoreText(rule, value, [])}`;

/** 0:03.5, 1:02:03.5 */
export function timecode(seconds) {
  if (!(seconds >= 0 && seconds < 9e15)) return "unknown";
  const tenths = Math.round(seconds * 10), s = Math.floor(tenths / 10), minutes = Math.floor(s / 60) % 60;
  return `${s < 3600 ? minutes : `${Math.floor(s / 3600)}:${two(minutes)}`}:${two(s % 60)}.${tenths % 10}`;
}

/** 12 bytes, 1.2 MiB */
export function byteSize(bytes) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  const unit = bytes < 1024 ? 0 : Math.min(4, Math.floor(Math.log2(bytes) / 10));
  return `${unit ? number(bytes / 1024 ** unit) : fixed(bytes, 0)}${kSpace}${units[unit]}`;
}
