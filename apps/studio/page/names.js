// Facts of clips in words: their titles, their units, and the groups that a reader looks for.
import { number, percentage, seconds } from "./format.js";
import { ruleTitles, timecode } from "./words.js";

const perSecond = (value) => `${number(value)} frames/s`;

// Title, text of a value.
const kFacts = {
  duration_s: ["Length", seconds], frames: ["Frames"], fps: ["Frame rate", perSecond],
  start_s: ["Start in the video", timecode], end_s: ["End in the video", timecode],
  first_frame: ["First frame in the video"], end_frame: ["Frame after the last"], height: ["Height"], width: ["Width"],
  rotation: ["Rotation", (value) => `${value}°`],
  codec: ["Codec", codec], container: ["Container", container],
  picture: ["Picture file", (value) => String(value).toUpperCase()], pixel_format: ["Pixels"], field_order: ["Fields"],
  matrix: ["Colours"], sha256: ["SHA-256 of the video"],
  "bin.aspect": ["Shape", (value) => String(value).replaceAll("_", ":")],
  "bin.duration": ["Range of lengths", range("s")], "bin.resolution": ["Range of heights", range("lines")],
  film: ["Source video"], similarity: ["Similarity"],
  "scores.clip.too-short": [ruleTitles.get("clip.too-short"), seconds],
  "scores.clip.too-few-frames": [ruleTitles.get("clip.too-few-frames")],
  "scores.clip.no-bin": ["Outside all bins"], "scores.ingest.duplicate": ["The same file again"],
  "scores.dedup.exact": ["The same clip again"], "scores.dedup.semantic": ["Looks and moves alike"],
};
const kContainers = { mov: "MP4 or MOV", mp4: "MP4 or MOV", matroska: "Matroska or WebM", mpegts: "MPEG-TS",
    ogg: "Ogg", avi: "AVI", flv: "FLV", mpeg: "MPEG-PS" };
const kCodecs = { h264: "H.264", hevc: "HEVC", av1: "AV1", vp8: "VP8", vp9: "VP9", mpeg4: "MPEG-4",
    mpeg2video: "MPEG-2", theora: "Theora", prores: "ProRes", aac: "AAC", opus: "Opus", vorbis: "Vorbis" };

// Titles and units that stages give to their scores: {NAME: {title, unit}}. A unit "of the picture" is of a share.
let stated = {};
export const stateScores = (scores) => (stated = scores);
const statedOf = (field) => (field.startsWith("scores.") && stated[field.slice("scores.".length)]) || {};

function container(names) {
  return kContainers[String(names).split(",")[0]] ?? String(names);
}

function codec(name) {
  return kCodecs[name] ?? String(name);
}

/** "lt_720" is "below 720 lines", "5_10" is "5 to 10 s". */
function range(unit) {
  return (value) => {
    const words = String(value).replace(/^lt_/, "below ").replace(/^(ge|gt)_/, "from ");
    return `${words.replace(/(\d)_(\d)/, "$1 to $2")} ${unit}`;
  };
}

/** "scores.filter.blur" is "Sharpness", "scores.glow" what its stage states, "user.my_rating" is "User my rating". */
export function titleOf(field) {
  if (kFacts[field]) return kFacts[field][0];
  if (statedOf(field).title) return statedOf(field).title;
  const words = field.replace(/^scores\./, "").replace(/^filter\./, "").replace(/[._]+/g, " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** The value of a fact, in its unit. */
export function textOf(field, value) {
  if (value === null || value === undefined) return "–";
  if (kFacts[field]?.[1]) return kFacts[field][1](value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value))
    return value.length > 8 ? `${value.length} values` : value.map((one) => textOf("", one)).join(", ");
  const { unit } = statedOf(field);
  if (typeof value === "number" && unit?.startsWith("of ")) return percentage(value);
  return typeof value === "number" ? number(value) + (unit ? `\u00A0${unit}` : "") : typeof value === "object"
      ? JSON.stringify(value) : String(value);
}

/** A bound that a score must keep: "at least 60", "more than 60". */
export function boundText(field, { is_most: isMost, is_strict: isStrict, value }) {
  const [most, least] = isStrict ? ["less than", "more than"] : ["at most", "at least"];
  return `${isMost ? most : least} ${textOf(field, value)}`;
}

// What the smallest and the largest number of a score mean, and which of them is better, if one is.
const kEnds = {
  "scores.filter.blur": ["blurred", "sharp", "high"], "scores.filter.brightness": ["dark", "bright"],
  "scores.filter.black": ["none", "all", "low"], "scores.filter.frozen": ["moving", "frozen", "low"],
  "scores.filter.letterbox": ["none", "wide", "low"], "scores.filter.flow": ["still", "fast"],
  "scores.filter.flow.p10": ["still", "fast"], "scores.filter.motion": ["still", "fast"],
  "scores.filter.motion.patch_min": ["still", "fast"], "scores.filter.text": ["none", "much", "low"],
  "scores.filter.ocr": ["none", "much", "low"],
  duration_s: ["short", "long"],
};

/** {low, high: words for the ends of a histogram, "" for none; better: "low", "high" or ""}. bounds: of stages; a score
 * that has them on one side only is better on the other. */
export function endsOf(field, bounds) {
  const [low = "", high = "", better = ""] = kEnds[field] ?? [];
  const sides = new Set(bounds.map((bound) => (bound.is_most ? "low" : "high")));
  return { low, high, better: better || (sides.size === 1 ? [...sides][0] : "") };
}

/** The name by which `where` knows a fact: "blur" for "scores.filter.blur", "`quality score`" for "user.quality score".
 * */
export function whereName(field) {
  const name = field.replace(/^(scores\.filter|scores|user)\./, "");
  return /^[\p{L}_][\p{L}\p{N}_.-]*$/u.test(name) ? name : `\`${name}\``;
}

/** Fields for a menu, in groups: [[group, [field, ...]], ...]. */
export function menuGroups(fields) {
  const isScore = (field) => /^(scores|measured)\./.test(field);
  const known = (field) => Boolean(kFacts[field]);
  const by = (test) => fields.filter(test).sort((a, b) => titleOf(a).localeCompare(titleOf(b)));
  return [["Scores", by(isScore)], ["Length and picture", by((field) => !isScore(field) && known(field))],
      ["Other facts", by((field) => !isScore(field) && !known(field))]].filter(([, all]) => all.length);
}

/** Members of an object by their dotted names. */
export function* flat(value, name = "") {
  if (value !== null && typeof value === "object" && !Array.isArray(value))
    for (const [key, member] of Object.entries(value)) yield* flat(member, name ? `${name}.${key}` : key);
  else if (name) yield [name, value];
}

const kGroups = [
  ["Length", ["duration_s", "frames", "fps", "start_s", "end_s"]],
  ["Picture", ["width", "height", "bin.aspect", "rotation", "codec", "pixel_format"]],
  ["File", ["container", "picture"]],
];
// in the list of all facts
const kHidden = new RegExp("^(bounds|usage|embeddings|frames_at|bin|film|sha256|copied|first_frame|end_frame|" +
    "field_order|matrix|frames_estimated|tags|duplicate)(\\.|$)");

/** The facts that a reader looks for: [[group, [[title, text, name], ...]], ...]. bounds: of its rule, if it was
 * filtered. */
export function factGroups(facts, reason) {
  const all = new Map(flat(facts)), used = new Set();
  const told = (names) =>
      names.filter((name) => all.has(name) && !(name === "rotation" && all.get(name) === 0)).map((name) =>
      (used.add(name), [titleOf(name), textOf(name, all.get(name)), name]));
  const groups = kGroups.map(([title, names]) => [title, told(names)]);
  const scores = [...all.keys()].filter((name) => name.startsWith("scores."));
  groups.push(["Scores",
      scores.map((name) => [titleOf(name), textOf(name, all.get(name)) + brokenBound(facts, name, reason), name])]);
  const others = [...all.keys()].filter((name) =>
      !used.has(name) && name !== "rotation" && !name.startsWith("scores.") && !kHidden.test(name));
  groups.push(["Other", told(others)]);
  return groups.filter(([, list]) => list.length);
}

function brokenBound(facts, name, reason) {
  const [[side, value] = []] = name === `scores.${reason}` ? Object.entries(facts.bounds?.[reason] ?? {}) : [];
  return side ? `, ${boundText(name, { is_most: side === "at_most", value })} is kept` : "";
}
