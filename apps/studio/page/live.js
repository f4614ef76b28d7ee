// Jobs at work: a line a stage. A finished job is one line.
import { make, number, plural, seconds } from "./format.js";

const kColumns = [["in", "in"], ["out", "out"], ["dropped", "filtered"], ["failed", "failed"], ["rate", "a second"], ["workers", "workers"], ["busy", "busy"], ["queue", "waiting"]];

export class Live {
  constructor(element) {
    this.element = element;
    this.before = new Map(); // job and stage -> {out, seconds}, to tell a rate
  }

  show(jobs) {
    const text = JSON.stringify(jobs.map(({ age_s, ...rest }) => [rest, age_s > 10]));
    if (text === this.text) return;
    this.text = text;
    this.element.replaceChildren(...jobs.flatMap((job) => this.job(job)));
  }

  job({ job, done, age_s, figures, summary }) {
    if (done || !figures) return summary ? [make("h2", {}, ended(job, summary))] : [];
    const stages = Array.isArray(figures.stages) ? figures.stages : [];
    const rows = stages.map((stage) => this.row(job, stage, figures.seconds));
    const bound = boundOf(stages, figures);
    const head = make("tr", {}, make("th", { scope: "col" }, "stage"), kColumns.map(([, title]) => make("th", { scope: "col" }, title)));
    const lines = rows.map((cells, i) => make("tr", { class: stages[i].name === bound ? "bound" : "" }, cells));
    const memory = figures.memory?.used !== undefined ? `, ${number(figures.memory.used / 2 ** 20)} of ${number((figures.memory.bound ?? NaN) / 2 ** 20)} MiB between stages` : "";
    const state = age_s > 10 ? `: no news for ${seconds(age_s)}` : bound ? `: ${bound} bounds the rate` : "";
    return [make("h2", {}, `${job}${state} (${seconds(figures.seconds)}, ${number(figures.done ?? figures.inputs)} of ${plural(figures.total ?? 0, "input")}${memory})`), make("table", {}, make("thead", {}, head), make("tbody", {}, lines))];
  }

  row(job, stage, now) {
    const key = `${job} ${stage.name}`, before = this.before.get(key);
    const rate = stage.rate ?? (before && now > before.seconds ? (stage.out - before.out) / (now - before.seconds) : now ? stage.out / now : null);
    this.before.set(key, { out: stage.out, seconds: now });
    const cells = kColumns.map(([name]) => make("td", {}, name === "rate" ? number(rate) : number(stage[name])));
    return [make("td", {}, stage.name), ...cells];
  }
}

/** The stage whose workers have the least rest, unless the job says which it is. */
function boundOf(stages, figures) {
  if (typeof figures.bound === "string") return figures.bound;
  const rest = (stage) => stage.busy / Math.max(1, stage.workers ?? 1);
  const busy = stages.filter((stage) => Number.isFinite(stage.busy));
  return busy.length ? busy.reduce((a, b) => (rest(b) > rest(a) ? b : a)).name : "";
}

function ended(job, summary) {
  const clips = summary.clips ?? {};
  const counts = ["kept", "filtered", "failed"].filter((name) => clips[name] !== undefined).map((name) => `${clips[name]} ${name}`);
  return `${job}: ${summary.status ?? "done"}${summary.seconds !== undefined ? ` in ${seconds(summary.seconds)}` : ""}; ${plural(summary.inputs ?? 0, "input")}${summary.failed ? ` (${summary.failed} failed)` : ""}${counts.length ? `, clips ${counts.join(", ")}` : ""}`;
}
