// Results of training: curves, the tokenizer's reconstructions, and generated videos.
import { plot } from "./charts.js";
import { make, styled } from "./elements.js";
import { eachJob, factList, factsOf, note, picture, rest, scrolling, section, table } from "./parts.js";
import { byteSize, count, duration, number } from "./words.js";

function curves({ name, curves: { loss, small } }) {
  if (!loss) return [note(`There is no loss in the metrics.jsonl of job “${name}”.`)];
  return [plot(loss, false), make("div", { class: "multiples" }, small.map((curve) => plot(curve, true)))];
}

const facts = (job) => factList([...factsOf(job), ["time", job.seconds === null ? "" : duration(job.seconds)]]);

function ranks({ ranks: list }) {
  if (!list.length) return [];
  const columns = [["tokens", "Tokens", count], ["loss_tokens", "Loss tokens", count], ["encoded", "Frames encoded", count], ["bytes_sent", "Sent", byteSize], ["bytes_received", "Received", byteSize], ["computing_seconds", "Computing", duration], ["waiting_seconds", "Waiting", duration]];
  const rows = list.map((rank, i) => [String(i), ...columns.map(([key, , text]) => text(rank[key]))]);
  return [table("Work of each rank", [["Rank", "n"], ...columns.map(([, title]) => [title, "n"])], rows)];
}

/** In a run of several trainings: their losses next to each other. */
function losses(jobs) {
  const done = jobs.filter(({ loss }) => loss !== undefined && loss !== null);
  if (done.length < 2) return [];
  const text = (value) => (value === null ? "" : number(value, 5));
  const used = ({ components }, slot) => components.find((one) => one.slot === slot)?.id.split("/")[1] ?? "";
  const rows = done.map((job) => [job.name, used(job, "model"), used(job, "precision"), text(job.loss), text(job.validation_loss)]);
  return [table("Losses", [["Job", "t"], ["Model", "t"], ["Precision", "t"], ["Loss", "n"], ["Validation loss", "n"]], rows)];
}

function rounding({ rounding: list, rounding_step: step }) {
  if (!list?.length) return [];
  const text = (value, times) => (value === null ? "" : number(times * value, 3));
  const cells = (of) => [text(of.sqnr, 1), text(of.clipped, 100), text(of.underflowed, 100)];
  const operands = [["activations", "Activations"], ["weights", "Weights"], ["gradients", "Gradients"]];
  const columns = operands.flatMap(([, title]) => [[`${title}, dB`, "n"], ["clipped, %", "n"], ["to zero, %", "n"]]);
  const title = `Rounding of each layer${step === null ? "" : `, in step ${count(step)}`}`;
  return [table(title, [["Layer", "t"], ...columns], list.map((row) => [row.layer, ...operands.flatMap(([key]) => cells(row[key]))])),
    make("p", { class: "muted" }, "dB: ratio of signal to quantisation noise; NVFP4 has 18 to 21 dB, and 3 dB less with stochastic rounding, which gradients have. Clipped: values beyond their block’s largest number. To zero: other values that became zero.")];
}

function pairs({ name, pairs: list }) {
  if (!list.length) return [note(`Job “${name}” left no pictures in its folder samples.`)];
  return list.map(({ original, reconstruction }, i) => {
    const which = `of sample ${i + 1}, its frames from left to right`;
    const row = (title, image) => make("div", { class: "row" }, make("span", { class: "row-name" }, title), picture(image, `${title} ${which}`));
    return make("figure", { class: "pair" }, scrolling(`Frames ${which}`, "", row("Original", original), row("Reconstruction", reconstruction)),
      make("figcaption", {}, `Sample ${i + 1}: frames of a clip, above the originals, below their reconstructions by the tokenizer.`));
  });
}

export const tokenizer = (jobs) => section("tokenizer", "Tokenizer", eachJob(jobs, (job) => [...facts(job), ...ranks(job), ...pairs(job)], curves));

export const training = (jobs, caches) => section("training", "Training", losses(jobs), eachJob(jobs, (job) => [...facts(job), ...ranks(job), ...rounding(job)], curves),
  caches.length ? [make("h3", {}, "Training data: cached latents"), ...eachJob(caches, facts)] : []);

function videoFacts({ seed, sampler, temperature, steps, nfe, guidance, width, height, frames, fps, seconds }) {
  const whole = (value) => value !== null && number(value, 15);
  return factList([["seed", seed], ["sampler", sampler], ["temperature", whole(temperature)], ["steps", whole(steps)], ["model calls", whole(nfe)], ["guidance", whole(guidance)],
    ["size", width !== null && height !== null && `${whole(width)} × ${whole(height)}`], ["frames", whole(frames)], ["rate", fps !== null && `${number(fps, 5)}\u00A0fps`], ["made in", seconds !== null && duration(seconds)]]);
}

function video(made) {
  const [width, height] = [made.width, made.height].map((size) => Math.min(Math.max(Math.trunc(size ?? 1), 1), 1 << 14));
  const player = made.video.uri ? styled(make("video", { controls: true, loop: true, muted: true, autoplay: true, playsInline: true, width, height, "aria-label": `Video generated from: ${made.prompt}`, src: made.video.uri }), { "aspect-ratio": `${width} / ${height}` }) : picture(made.video, "");
  return make("article", { class: "video" },
    make("figure", {}, player, make("figcaption", {}, make("q", { class: "prompt" }, made.prompt || "(no prompt)"), videoFacts(made))),
    scrolling("Frames of the video", "strip", picture(made.strip, "The frames of the video, from left to right")));
}

export const videos = (jobs) => section("videos", "Generated videos", eachJob(jobs, ({ name, videos: { list, more } }) => [
  ...(list.length ? [] : [note(`There are no videos in the folder of job “${name}”.`)]),
  ...list.map(video),
  ...rest(more, "more video", ` in the folder of job “${name}”.`),
]));
