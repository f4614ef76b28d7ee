// "Why not this one?": next to a clip that was left out, the bounds that would keep it, how many clips they would keep
// in all, and the words to copy.
import { get } from "./api.js";
import { copyText } from "./clipboard.js";
import { make } from "./elements.js";
import { plural } from "./format.js";

const kOptions = { "clip.too-short": "min_length", "clip.too-few-frames": "min_frames" };
const kEndless = 1e300;

/** Paragraphs about a clip of /api/clip; none if it is kept, or no bound left it out. histograms: of /api/histograms;
 * say(text): shows a message. */
export async function whyNot(clip, histograms, say) {
  if (clip.decision || (clip.end !== "filtered" && clip.end !== "unchosen")) return [];
  const found = clip.end === "filtered" ? [await ofStage(clip, histograms)]
      : await Promise.all((clip.left_out ?? []).map((by) => ofSelect(clip, by, histograms)));
  return found.filter(Boolean).map(({ text, place, count }) => {
    const inAll = `${plural(count, "clip")} in all`, button = make("button",
        { type: "button", "aria-label": `Copy ${text}`, onclick: () => copyText(text, say) }, "Copy");
    return make("p", { class: "why" }, make("span", {}, make("code", {}, text),
        ` ${place} would keep it; ${inAll}.`), button);
  });
}

/** The option of the stage whose rule filtered the clip, at the clip's own score. A later stage may filter it still. */
async function ofStage({ reason, stage, score, facts }, histograms) {
  const [[side] = []] = Object.entries(facts?.bounds?.[reason] ?? {}), field = `scores.${reason}`;
  if (!side || typeof score !== "number") return null;
  const bound = { field, is_most: side === "at_most", is_strict: false };
  const known = boundsOf(histograms).find((other) =>
      !other.select && other.is_most === bound.is_most && other.field === field);
  const part = reason.startsWith(`${stage}.`) ? `${reason.slice(stage.length + 1)}_` : "";
  const value = keeping(score, bound), option = known?.option ?? kOptions[reason] ?? part + side;
  return { text: `${option} = ${value}`, place: `of ${known?.stage ?? stage}`,
      count: await countOf(reason, [{ ...bound, value }]) };
}

/** The conditions of a select job that the clip breaks, at its own numbers, if the rule is one of them. */
async function ofSelect({ facts }, { job, rule }, histograms) {
  const all = boundsOf(histograms).filter((bound) => bound.select === job), its = (bound) => factOf(facts, bound.field);
  const broken = all.filter((bound) => typeof its(bound) === "number" && !keeps(bound, its(bound)));
  if (!broken.some((bound) => rule === conditionOf(bound))) return null;
  const moved = new Map(broken.map((bound) => [bound, { ...bound, value: keeping(its(bound), bound) }]));
  return { text: [...moved.values()].map(conditionOf).join(" and "), place: `in the where of ${job}`,
      count: await countOf(job, all.map((bound) => moved.get(bound) ?? bound)) };
}

/** How many clips that a rule or a select job leaves out are within the bounds; without those that people have decided
 * about. */
async function countOf(rule, bounds) {
  const ranges = new Map();
  for (const { field, value, is_most: isMost, is_strict: isStrict } of bounds) {
    const [low, high] = ranges.get(field) ?? [-kEndless, kEndless];
    ranges.set(field, isMost ? [low, Math.min(high, isStrict ? value : above(value))]
        : [Math.max(low, isStrict ? above(value) : value), high]);
  }
  const undecided = ["open", "captioned"].map((name) => ["decision", name]);
  const { total } = await get("/api/clips", [["rule", rule], ["count", 0], ...undecided,
      ...[...ranges].map(([field, range]) => ["range", [field, ...range].join(":")])]);
  return total;
}

const boundsOf = (histograms) =>
    histograms.flatMap(({ field, bounds }) => bounds.map((bound) => ({ field, ...bound })));

const conditionOf = ({ option, is_most: isMost, is_strict: isStrict, value }) =>
    `${option} ${isMost ? "<" : ">"}${isStrict ? "" : "="} ${value}`;

function keeps({ value, is_most: isMost, is_strict: isStrict }, its) {
  if (isStrict) return isMost ? its < value : its > value;
  return isMost ? its <= value : its >= value;
}

/** A bound of three digits that just keeps the value. */
export function keeping(its, bound) {
  const digit = 10 ** (Math.floor(Math.log10(Math.abs(its) || 1)) - 2), rounded = Number(its.toPrecision(3));
  if (keeps({ ...bound, value: rounded }, its)) return rounded;
  return Number((rounded + (bound.is_most ? digit : -digit)).toPrecision(3));
}

/** A number a little above; a range of a query has no end of its own. */
const above = (value) => value + Math.max(Math.abs(value) * 1e-9, 1e-300);

/** The member of facts with a dotted name, of whose parts some contain dots: "scores.filter.blur". */
function factOf(facts, name) {
  if (facts === null || typeof facts !== "object") return undefined;
  if (name in facts) return facts[name];
  for (let dot = name.indexOf("."); dot > 0; dot = name.indexOf(".", dot + 1)) {
    const found = factOf(facts[name.slice(0, dot)], name.slice(dot + 1));
    if (found !== undefined) return found;
  }
  return undefined;
}
