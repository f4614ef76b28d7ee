// Results of training: curves, the tokenizer's reconstructions, and generated videos.
import { plot } from "./charts.js";
import { driftCharts } from "./drift.js";
import { make, styled } from "./elements.js";
import { figures, lossTexts, shapeText } from "./facts.js";
import { eachJob, factList, note, picture, rest, scrolling, section, strip, table } from "./parts.js";
import { byteSize, count, duration, number } from "./words.js";

function curves({ name, curves: { loss, small } }) {
  if (!loss) return [note(`There is no loss in the metrics.jsonl of job “${name}”.`)];
  return [plot(loss, false), make("div", { class: "multiples" }, small.map((curve) => plot(curve, true)))];
}

function ranks({ ranks: list }) {
  if (!list.length) return [];
  const columns = [["tokens", "Tokens", count], ["loss_tokens", "Loss tokens", count],
      ["encoded", "Frames encoded", count], ["bytes_sent", "Sent", byteSize], ["bytes_received", "Received", byteSize],
      ["computing_seconds", "Computing", duration], ["waiting_seconds", "Waiting", duration]];
  const rows = list.map((rank, i) => [String(i), ...columns.map(([key, , text]) => text(rank[key]))]);
  return [table("Work of each rank", [["Rank", "n"], ...columns.map(([, title]) => [title, "n"])], rows)];
}

/** In a run of several trainings: their losses next to each other. That of a distill job compares scores. */
function losses(jobs) {
  const done = jobs.filter(({ kind, loss }) => kind === "train" && loss !== undefined && loss !== null);
  if (done.length < 2) return [];
  const used = ({ components }, slot) => components.find((one) => one.slot === slot)?.id.split("/")[1] ?? "";
  const rows = done.map((job) => [job.name, used(job, "model"), used(job, "precision"), ...lossTexts(job)]);
  return [table("Losses at the end",
      [["Job", "t"], ["Model", "t"], ["Precision", "t"], ["Loss", "n"], ["Validation loss", "n"]], rows)];
}

function rounding({ rounding: list, rounding_step: step }) {
  if (!list?.length) return [];
  const text = (value, times) => (value === null ? "" : number(times * value, 3));
  const cells = (of) => [text(of.sqnr, 1), text(of.clipped, 100), text(of.underflowed, 100)];
  const operands = [["activations", "Activations"], ["weights", "Weights"], ["gradients", "Gradients"]];
  const columns = operands.flatMap(([, title]) => [[`${title}, dB`, "n"], ["clipped, %", "n"], ["to zero, %", "n"]]);
  const title = `Rounding of each layer${step === null ? "" : `, in step ${count(step)}`}`;
  return [table(title, [["Layer", "t"], ...columns],
      list.map((row) => [row.layer, ...operands.flatMap(([key]) => cells(row[key]))])),
    make("p", { class: "muted" },
        "dB: ratio of signal to quantisation noise; NVFP4 has 18 to 21 dB, and 3 dB less with stochastic rounding, " +
        "which its gradients have; FP8 has 31 to 32 dB in E4M3, and 25 to 26 dB in E5M2, which gradients have " +
        "unless the job says otherwise. Clipped: values beyond their block’s largest number. " +
        "To zero: other values that became zero.")];
}

function pairs({ name, options, pairs: list }) {
  const shape = JSON.parse(options).options ?? {}; // width and height of a frame
  if (!list.length) return [note(`Job “${name}” left no pictures in its folder samples.`)];
  return list.map(({ original, reconstruction }, i) => {
    const which = `of sample ${i + 1}, its frames from left to right`;
    const row = (title, image) => make("div", { class: "row" }, make("span", { class: "row-name" }, title),
        strip(image, shape, `${title} ${which}`));
    return make("figure", { class: "pair" },
        scrolling(`Frames ${which}`, "", row("Original", original), row("Reconstruction", reconstruction)),
      make("figcaption", {},
          `Sample ${i + 1}: frames of a clip, above the originals, below their reconstructions by the tokenizer.`));
  });
}

export const tokenizer = (jobs) => section("tokenizer", "Tokenizer",
    eachJob(jobs, (job) => [...figures(job), ...ranks(job), ...pairs(job)], curves));

export const latents = (jobs) => section("latents", "Latents: the clips as the model sees them",
    eachJob(jobs, figures));

export const training = (jobs) => section("training", "Training",
  jobs.length ? [make("p", { class: "muted" },
      "A loss has no scale of its own: it ranks trainings with the same loss on the same data.")] : [],
  losses(jobs), eachJob(jobs, (job) => [...figures(job), ...ranks(job), ...rounding(job)], curves));

function videoFacts(made) {
  const { seed, sampler, temperature, steps, nfe, guidance, width, height, frames, fps, seconds } = made;
  const whole = (value) => value !== null && number(value, 15), isTimed = frames > 0 && fps > 0;
  return factList([["length", isTimed && duration(frames / fps)],
      ["frames", isTimed ? `${whole(frames)} at ${number(fps, 5)}\u00A0fps` : whole(frames)],
    ["size", width !== null && height !== null && `${whole(width)} × ${whole(height)}`],
    ["made in", seconds !== null && duration(seconds)],
    ["sampler", sampler], ["temperature", whole(temperature)], ["steps", whole(steps)],
    [sampler ? "denoiser calls" : "codes drawn", whole(nfe)], ["model calls", whole(made.model_calls)],
    ["guidance", whole(guidance)], ["seed", seed]]);
}

/** The prompt; of a video of shots the prompt of each, after the seconds that it has. */
function prompts({ prompt, shots, frames, fps }) {
  const quoted = (text) => make("q", { class: "prompt" }, text || "(no prompt)");
  if (!shots.length) return quoted(prompt);
  const at = (frame) => (fps > 0 ? `${number(frame / fps)}\u00A0s` : `frame\u00A0${count(frame)}`);
  const to = (i) => shots[i + 1]?.frame ?? frames;
  return make("ol", { class: "prompts" }, shots.map(({ prompt: text, frame }, i) =>
    make("li", {}, to(i) > frame ? `${at(frame)} to ${at(to(i))}` : `from ${at(frame)}`, quoted(text))));
}

/** Where the prompt names a length that the video does not have. Shots have lengths of their own. */
function lengthNote({ prompt, shots, frames, fps }) {
  if (shots.length) return null;
  const named = /(\d+(?:\.\d+)?) seconds?\b/.exec(prompt)?.[1];
  if (!named || !(frames > 0 && fps > 0) || Math.abs(named - frames / fps) < 0.2 * named) return null;
  return note(`The prompt says ${named} seconds, the video has ${duration(frames / fps)}: a prompt describes, ` +
      "the length is that of the windows in training or of the option frames.");
}

const kShort = 2; // seconds: browsers show the time of a shorter video as 0:00 of 0:00

function player({ video: { uri }, prompt, shots, frames, fps }, width, height) {
  const more = shots.length > 1 ? ", and from those of further shots" : "";
  const isShort = frames / fps < kShort, isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const out = styled(make("video",
      { controls: !isShort, loop: true, muted: true, autoplay: !isCalm, playsInline: true, width, height,
      "aria-label": `Video generated from: ${prompt}${more}`, src: uri }), { "aspect-ratio": `${width} / ${height}` });
  if (!isShort) return out;
  const button = make("button", { type: "button", onclick: () => (out.paused ? out.play() : out.pause()) }, "Play");
  for (const event of ["play", "pause"])
    out.addEventListener(event, () => (button.textContent = out.paused ? "Play" : "Pause"));
  return make("div", {}, out,
      make("p", { class: "playing" }, button,
      make("span", { class: "muted" }, `${duration(frames / fps)}, repeats`)));
}

function video(made) {
  const [width, height] = [made.width,
      made.height].map((size) => Math.min(Math.max(Math.trunc(size ?? 1), 1), 1 << 14));
  return make("article", { class: "video" },
    make("figure", {}, made.video.uri ? player(made, width, height) : picture(made.video, ""),
      make("figcaption", {}, prompts(made), videoFacts(made),
          lengthNote(made))),
    scrolling("Frames of the video", "strip", strip(made.strip, made, "The frames of the video, from left to right")),
    driftCharts(made.drift));
}

const kTiny = 50e6; // parameters
const factOf = (job, name) => job.facts.find((fact) => fact.name === name)?.value;

/** Says what videos of tiny models can and cannot show. made: one of the videos. */
function tinyNote(trainings, encodings, made) {
  const [training] = trainings, parameters = trainings.length === 1 ? factOf(training, "parameters") : undefined;
  if (!made || !(parameters > 0 && parameters < kTiny)) return [];
  const time = training.seconds === null ? "" : `, trained for ${duration(training.seconds)}`;
  const columns = encodings.map((job) => factOf(job, "latent_shape")?.[3]).find((n) => n > 0);
  const block = made.width / columns;
  const blocks = Number.isInteger(block) && block > 1
      ? ` Squares of ${shapeText([block, block])} pixels are the places of a latent, ` +
        "which so small a model hardly joins into shapes; the file is not damaged." : "";
  const size = shapeText([made.width, made.height]);
  return [note(`Rough on purpose: ${size} pixels by a model of ${count(parameters)} parameters${time}. ` +
      `This shows that every part works and what it costs, not what such models can do.${blocks}`)];
}

export const videos = (jobs, trainings, encodings) => section("videos", "Generated videos",
    eachJob(jobs, ({ name, videos: { list, more } }) => [
  ...(list.length ? [] : [note(`There are no videos in the folder of job “${name}”.`)]),
  ...tinyNote(trainings, encodings, list.find(({ width, height }) => width > 0 && height > 0)),
  ...list.map(video),
  ...rest(more, "more video", ` in the folder of job “${name}”.`),
]));
