// Figures of a job's summary.json in the order in which a reader asks: what went in, what came out, is it good, what
// did it cost.
import { make } from "./elements.js";
import { factList, factsOf, fileOf } from "./parts.js";
import { byteSize, count, counted, duration, number } from "./words.js";

const kGroups = { in: "What went in", out: "What came out", good: "Is it good?", cost: "What it cost" };
const decibel = (value) => `${number(value)}\u00A0dB`;
const share = (value) => `${number(100 * value, 2)}\u00A0%`;
const giga = (unit) => (value) => `${number(value / 1e9)}\u00A0${unit}`;
export const shapeText = (sizes) => sizes.map((size) => count(size)).join("\u00A0×\u00A0");

/** The words of the first of [limit, words] above the value. */
const judged = (bands) => (value) => bands.find(([limit]) => !(value >= limit))[1];
const kPsnr = [[20, "colours are right, shapes are not"], [26, "shapes are right, but blurred"],
    [34, "details are lost, shapes are right"], [40, "only fine details differ"],
    [Infinity, "hard to tell from the original"]];
const kSsim = [[0.7, "of 1: many shapes are lost"], [0.9, "of 1: shapes are right, edges are not"],
    [0.97, "of 1: edges are right, fine textures are lost"], [Infinity, "of 1: hard to tell from the original"]];

// Figures of each kind of job: [group, member of the summary, title, its text, what it means]. A figure of "problem" is
// shown unless it is 0.
const kHeldOut = ["in", "held_out", "held out", count,
    () => "of these: never trained on, they tell learning from memory"];
const problems = (...list) => list.map(([name, title]) => ["good", name, title, count, () => "", "problem"]);
const kTraining = [
  ["out", "parameters", "parameters", count, () => "numbers that were learnt"],
  ["out", "steps", "steps", count],
  ...problems(["skipped", "steps without a finite gradient"], ["failed", "damaged samples"],
      ["too_short", "too short to use"]),
  ["cost", "seconds_per_step", "a step", duration],
  ["cost", "flops_per_sample", "arithmetic of a sample", giga("GFLOP"), () => "forward and backward"],
  ["cost", "peak_flops", "rate of this machine", giga("GFLOP/s"), () => "a large product alone"],
  ["cost", "checkpoint_share", "writing checkpoints", share, () => "of the time"],
  ["cost", "gpu_peak_bytes", "memory of the GPU", byteSize, () => "most in use"],
];
const kFigures = {
  dedup: [
    ["in", "inputs", "clips", count],
    ["out", "clips kept", "clips kept", count],
    ["out", "clips filtered", "copies left out", count, () => "decisions.jsonl names the clip that each is a copy of"],
    ...problems(["clips failed", "clips that could not be compared"]),
  ],
  select: [
    ["in", "inputs", "clips", count],
    ["out", "clips kept", "clips chosen", count],
    ["out", "clips filtered", "left out", count],
  ],
  shard: [
    ["in", "given", "clips given", count, () => "by the dedup or select job that it reads"],
    ["in", "inputs", "clips", count, () => "that the curate job kept"],
    ["in", "not_asked_for clips", "clips not asked for", count, () => "left out by the job's where"],
    ["out", "samples", "samples", count, () => "a clip with its texts each"],
    ["out", "shards", "shards", count],
    ["out", "bytes", "size", byteSize],
    ...problems(["filtered", "left out by a rule"], ["copies_of_rejected", "left out as copies of rejected clips"],
        ["edits_of_clips_not_kept", "edits of clips that were not kept"],
        ["edits_of_other_footage", "edits of other footage"]),
  ],
  "train-tokenizer": [
    ["in", "clips", "clips", count],
    kHeldOut,
    ["good", "psnr", "PSNR of reconstructions", decibel, judged(kPsnr)],
    ["good", "ssim", "SSIM of reconstructions", number, judged(kSsim)],
    ...kTraining,
  ],
  encode: [
    ["in", "clips", "clips", count],
    ["out", "samples", "windows", count, () => "cut from the clips, may overlap"],
    ["out", "latent_shape", "latent of each", shapeText, () => "channels × frames × height × width"],
    ["out", "bytes", "size", byteSize],
    ...problems(["failed", "damaged clips"], ["too_short", "too short for a window"],
        ["without_signal", "without a control signal"]),
  ],
  distill: kTraining,
  train: [["in", "samples", "windows", count], kHeldOut, ...kTraining],
};

// Counts by reason: the names "dropped filter.facts" and such.
const kByReason = [["dropped ", "good", "dropped by a transform, "], ["left_out ", "in", "left out by "]];

const isShown = (value) =>
    typeof value === "number"
    || (Array.isArray(value) && value.length > 0 && value.every((member) => typeof member === "number"));

/** The places [step, value] of a curve as its chart draws them. */
const drawnOf = (curve) => curve?.line ?? curve?.points ?? [];

const meanOf = (places) => places.reduce((sum, [, value]) => sum + value, 0) / places.length;

/** Where a loss goes: the last fifth of its steps compared with the fifth before. */
function trend(places) {
  const [first, last] = [places[0][0], places.at(-1)[0]];
  const fifth = (n) =>
      places.filter(([step]) =>
      step >= first + (n / 5) * (last - first) && step <= first + ((n + 1) / 5) * (last - first));
  const before = meanOf(fifth(3)), ratio = meanOf(fifth(4)) / before;
  if (!(before > 0)) return "";
  if (ratio < 0.97) return "still falls: more steps would help";
  return ratio > 1.03 ? "rises at the end" : "level at the end";
}

/** The loss as the chart has it: where its line ends, not the last step's alone. */
function lossFigure({ curves: { loss } }, digits) {
  const places = drawnOf(loss);
  if (!places.length) return [];
  const isMean = loss.line !== null, start = places.length > 1 ? `from ${number(places[0][1])}` : "";
  return [["loss at the end", number(places.at(-1)[1], digits),
      [start, isMean ? trend(places) : ""].filter(Boolean).join("; ")]];
}

function validationFigure({ curves: { small } }, digits) {
  const places = drawnOf(small.find(({ title }) => title === "Validation loss"));
  if (!places.length) return [];
  const [best, last] = [places.reduce((a, b) => (b[1] < a[1] ? b : a)), places.at(-1)];
  const isWorse = last[1] > 1.02 * best[1];
  const told = places.length < 2 ? "" : isWorse
      ? `lowest at step ${count(best[0])}, ${number(best[1])}: since then the model learns its samples by heart`
      : "near its lowest: no sign of learning by heart";
  return [["validation loss", number(last[1], digits), told]];
}

/** The windows that the job cuts from clips, by its options. */
function windowFigure({ kind, options }) {
  const { frames, width, height } = JSON.parse(options).options ?? {};
  const isTold = (kind === "train-tokenizer" || kind === "encode") && frames > 0 && width > 0 && height > 0;
  return isTold ? [["window of a clip", `${counted(frames, "frame")}, ${shapeText([width, height])}`, ""]] : [];
}

/** A job's figures by group: {in: [[title, text, meaning], ...], ...}, and the names that they use. */
function grouped(job) {
  // a chart shows it; clips without those that are too short or damaged
  const out = { in: [], out: [], good: [], cost: [] }, used = new Set(["validation_loss", "used"]);
  const values = new Map(job.facts.map(({ name, value }) => [name, value]));
  for (const [group, name, title, text, meaning = () => "", kind] of kFigures[job.kind] ?? []) {
    const value = values.get(name);
    if (!isShown(value) || Array.isArray(value) !== (text === shapeText)) continue;
    used.add(name);
    if (!(value === 0 && (kind === "problem" || name === "held_out")))
      out[group].push([title, text(value), meaning(value)]);
  }
  for (const [prefix, group, title] of kByReason)
    for (const [name, value] of values)
      if (name.startsWith(prefix) && used.add(name) && value > 0)
        out[group].push([title + name.slice(prefix.length), count(value), ""]);
  out.in.push(...windowFigure(job));
  if (job.curves) out.good.unshift(...lossFigure(job), ...validationFigure(job));
  if (job.seconds !== null) out.cost.unshift(["time", duration(job.seconds), ""]);
  return [out, used];
}

function group(title, figures) {
  const figure = ([name, text, meaning]) => make("div", {}, make("dt", {}, name), make("dd", {}, text),
      meaning ? make("dd", { class: "more" }, meaning) : null);
  return make("div", { class: "group" }, make("p", { class: "question" }, title),
      make("dl", { "aria-label": title }, figures.map(figure)));
}

/** The figures of a job, with what they mean; the others of its summary behind a fold. */
export function figures(job) {
  const [groups, used] = grouped(job), others = factsOf({ facts: job.facts.filter(({ name }) => !used.has(name)) });
  const parts = Object.entries(kGroups).filter(([key]) => groups[key].length).map(([key, title]) => group(title,
      groups[key]));
  return [
    ...(parts.length ? [make("div", { class: "groups" }, parts)] : []),
    ...(others.length
        ? [make("details", {}, make("summary", {}, `${counted(others.length, "more figure")} of summary.json`),
        factList(others), make("p", { class: "muted" }, "The whole file: ", fileOf(job, "summary.json")))] : []),
  ];
}

/** The loss and the validation loss at the end, as texts, for a table of several trainings. */
export const lossTexts = (job) => [lossFigure(job, 5), validationFigure(job, 5)].map(([one]) => one?.[1] ?? "");
