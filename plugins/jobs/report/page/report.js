// The report: draws the data that the job wrote into the page.
import { make } from "./elements.js";
import { sourceVideos } from "./source_videos.js";
import { outcomes } from "./outcomes.js";
import { note } from "./parts.js";
import { scores } from "./scores.js";
import { settings, times } from "./settings.js";
import { latents, tokenizer, training, videos } from "./training.js";
import { counted } from "./words.js";

// Controls other than tab and line feed, and characters that change the reading direction, do not reach the page.
const kUnwanted = /[\0-\x08\x0B-\x1F\x7F-\x9F\u202A-\u202E\u2066-\u2069]/g;
const cleaned = (key, value) => (typeof value === "string" ? value.replace(kUnwanted, "\uFFFD") : value);
const data = document.getElementById("data");
const run = JSON.parse(data.textContent, cleaned);
data.remove(); // it may be large

function top({ title, file, seed, version, finished, figures, jobs }) {
  const about = [file, `seed ${seed}`, `Kinora ${version}`];
  if (finished.length >= 16) about.push(`finished ${finished.slice(0, 10)} ${finished.slice(11, 16)} UTC`);
  const figure = ({ name, value, more }) => make("div", {}, make("dt", {}, name), make("dd", {}, value),
      more ? make("dd", { class: "more" }, more) : null);
  const unfinished = jobs.filter(({ missing }) => missing).length;
  return make("header", {}, make("h1", {}, title), make("p", { class: "muted" }, about.join(" · ")),
      make("dl", { class: "figures" }, figures.map(figure)),
    unfinished ? note(
        `This run is not complete: ${counted(unfinished, "job")} ${unfinished === 1 ? "has" : "have"} not finished.`)
        : null);
}

const of = (kind) => run.jobs.filter((job) => job.kind === kind);
document.title = `${run.title} – Kinora`;
document.body.append(top(run), make("main", {},
  sourceVideos(of("curate")), outcomes(of("curate"), of("dedup"), of("select"), of("shard")), scores(of("curate")),
  tokenizer(of("train-tokenizer")), latents(of("encode")), training([...of("train"), ...of("distill")]),
  videos(of("generate"), of("train"), of("encode")), times(run.jobs), settings(run)));
