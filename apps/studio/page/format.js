// Formats values.
import { make } from "./elements.js";
import { powerOfTen, tenths } from "./words.js";

/** 0.123456 -> "0.123", 1234567 -> "1.23M", 0.000001 -> "1×10⁻⁶"; whole numbers below a million as they are. */
export function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
  for (const [unit, scale] of [["G", 1e9], ["M", 1e6]]) if (Math.abs(value) >= scale)
    return trim((value / scale).toPrecision(3)) + unit;
  const size = Math.abs(value);
  if (size < 1e-12) return "≈ 0";
  if (size >= 1e-5) return size >= 1000 ? String(Math.round(value)) : trim(value.toPrecision(3));
  const [digits, exponent] = value.toExponential(1).split("e");
  return `${trim(digits)}×${powerOfTen(Number(exponent))}`;
}

/** 0.05 -> "5 %" */
export const percentage = (value) => `${number(100 * value)} %`;

const trim = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);

/** A price in the currency of its stage's options: "1,204.50", "0.0008". */
export const money = (value) => value.toLocaleString("en",
    value >= 1 ? { minimumFractionDigits: 2, maximumFractionDigits: 2 } : { maximumSignificantDigits: 3 });

/** Seconds as "0.042 s", "2.5 s", "1:05" or "1:02:03". */
export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value > 0 && value < 0.95) return `${trim(value.toPrecision(2))} s`;
  if (value < 60) return `${trim(tenths(value).toFixed(1))} s`;
  const whole = Math.round(value), hours = Math.floor(whole / 3600);
  const two = (n) => String(n).padStart(2, "0");
  const rest = `${hours ? two(Math.floor(whole / 60) % 60) : Math.floor(whole / 60)}:${two(whole % 60)}`;
  return hours ? `${hours}:${rest}` : rest;
}

export const plural = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

/** "film-0003" of "clips/film-0003". */
export const keyOf = (id) => id.slice(id.indexOf("/") + 1);

/** "1 copy", "2 copies". */
export const copiesOf = ({ copies: { length } }) =>
    `${length.toLocaleString("en")} ${length === 1 ? "copy" : "copies"}`;

/** Says which copies take the place of a rejected clip in shards. */
export function replacedBy(clip) {
  const taking = clip.copies.length > 1 ? "are left, one of which takes" : "takes";
  return `${copiesOf(clip)} of a rejected clip ${taking} its place: ${clip.copies.map(keyOf).join(", ")}.`;
}

/** 734003 -> "734 kB" */
export const fileSize = (bytes) => (bytes < 1e6 ? `${number(bytes / 1000)} kB` : `${number(bytes / 1e6)} MB`);

/** Splits a number of items into clips and input videos: "11 clips, 1 video"; a kind with no items is left out. */
export function kinds(all, videos) {
  const parts = [[all - videos, "clip"], [videos, "video"]].filter(([n]) => n);
  return parts.length ? parts.map(([n, word]) => plural(n, word)).join(", ") : plural(0, "clip");
}

/** The user's decision in words, as far as the job can follow it: only stored clips can be packed. */
export const decided = (row) => (row.unstored ? "accepted, not stored" : row.decision);

export const markClass = (row) => `mark ${row.unstored ? "unstored" : row.decision || row.end}`;

/** The outcome of a clip in words: the user's decision, else the job's. */
export function outcome(row) {
  if (row.decision) return decided(row);
  if (row.end === "unchosen") return `left out by ${row.left_out.map(({ job }) => job).join(" and ")}`;
  if (row.end === "copy") return `copy of ${row.copy_of}`;
  if (row.end === "filtered") return `filtered by ${row.reason}`;
  return row.end;
}

/** The key of a button, which a page without a keyboard hides. */
export const hint = (key) => make("span", { class: "hint" }, ` (${key})`);

export const endName = (end) => (end === "unchosen" ? "left out" : end);

/** Which colour is which outcome. */
export const legend = (names) => make("ul", { class: "legend", "aria-label": "Colours" },
    [...names].map((name) => make("li", {}, make("i", { class: `swatch ${name}` }), ` ${endName(name)}`)));
