// The report: draws the data that the job wrote into the page.
import { make } from "./elements.js";
import { head } from "./head.js";
import { sourceVideos } from "./source_videos.js";
import { outcomes } from "./outcomes.js";
import { scores } from "./scores.js";
import { settings, times } from "./settings.js";
import { latents, tokenizer, training, videos } from "./training.js";

// Controls other than tab and line feed, and characters that change the reading direction, do not reach the page.
const kUnwanted = /[\0-\x08\x0B-\x1F\x7F-\x9F\u202A-\u202E\u2066-\u2069]/g;
const cleaned = (key, value) => (typeof value === "string" ? value.replace(kUnwanted, "\uFFFD") : value);
const data = document.getElementById("data");
const run = JSON.parse(data.textContent, cleaned);
data.remove(); // it may be large
for (const job of run.jobs) job.folder = `${run.run ?? ""}${encodeURIComponent(job.name)}`;

const of = (kind) => run.jobs.filter((job) => job.kind === kind);
document.title = `${run.title} – Kinora`;
const main = make("main", {},
  sourceVideos(of("curate")), outcomes(of("curate"), of("dedup"), of("select"), of("shard"),
      run.jobs.find(({ kind }) => kind === "dedup" || kind === "select")?.kind === "dedup"), scores(of("curate")),
  tokenizer(of("train-tokenizer")), latents(of("encode")), training([...of("train"), ...of("distill")]),
  videos(of("generate"), of("train"), of("encode")), times(run.jobs), settings(run));
document.body.append(head(run, main), main);
// On paper all videos are read, however many there are.
addEventListener("beforeprint",
    () => document.querySelectorAll(".more-videos").forEach((fold) => (fold.open = true)));
