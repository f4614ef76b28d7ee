// Running jobs as a bar with the time left, and a table of their stages on demand; finished jobs with one line; the use
// of servers for
// both.
import { make } from "./elements.js";
import { money, number, plural, seconds } from "./format.js";

const kColumns = [["in", "samples in"], ["out", "samples out"], ["dropped", "filtered"], ["failed", "failed"],
    ["rate", "a second"], ["workers", "workers"], ["busy", "busy"], ["queue", "waiting"]];

// Other things that may limit a job besides its stages, by their names in live.json.
const kBounds = { source: "reading its inputs", memory: "its memory" };

// In the units of the terminal's table: whole MiB, rates to a tenth.
const mebibytes = (bytes) => (Number.isFinite(bytes) ? String(Math.round(bytes / 2 ** 20)) : "–");
const perSecond = (rate) => (Number.isFinite(rate) ? rate.toFixed(1) : "–");

export class Live {
  constructor(element) {
    this.element = element;
    this.before = new Map(); // job and stage -> {out, seconds}, to compute a rate
    this.opened = new Set(); // jobs whose table is shown
  }

  /** anew: names of jobs that run from scratch. */
  show(jobs, anew) {
    const text = JSON.stringify([anew, ...jobs.map(({ age_s, ...rest }) => [rest, age_s > 10])]);
    if (text === this.text) return;
    this.text = text;
    const remade = anew.map((job) => make("h2", {},
        `${job} is making its clips anew; the results of before are kept until it is done, and edits stay`));
    this.element.replaceChildren(...remade, ...jobs.flatMap((job) => this.job(job)));
  }

  job({ job, done, age_s, figures, summary, usage, failure }) {
    const costs = paid(usage ?? {}).map((text) => make("p", { class: "muted" }, text));
    if (done || !figures) return summary ? [make("h2", {}, ended(job, summary)), ...costs] : costs;
    if (figures.ended) return [make("h2", {}, stopped(job, figures, failure)), ...costs];
    const stages = Array.isArray(figures.stages) ? figures.stages : [], bound = boundOf(stages, figures);
    const news = age_s > 10 ? `no news for ${seconds(age_s)}` : bound ? `${kBounds[bound] ?? bound} bounds the rate`
        : "";
    const about = [progress(figures), `${seconds(figures.seconds)} so far`, left(figures),
        news].filter(Boolean).join(", ");
    const bar = make("progress",
        { max: Math.max(1, figures.total ?? 0), value: figures.done ?? figures.inputs ?? 0,
        "aria-label": `Progress of ${job}` });
    return [make("div", { class: "job" }, make("h2", {}, make("b", {}, job), `: ${about}`), bar), ...costs,
        this.table(job, stages, figures, bound)];
  }

  /** Stages that have worked so far; it stays open while its figures change. */
  table(job, stages, figures, bound) {
    const lines = stages.map((stage) => [stage,
        this.row(job, stage, figures.seconds)]).filter(([stage]) => stage.in > 0);
    const head = make("tr", {}, make("th", { scope: "col" }, "stage"),
        kColumns.map(([, title]) => make("th", { scope: "col" }, title)));
    const body = lines.map(([stage, cells]) => make("tr", { class: stage.name === bound ? "bound" : "" }, cells));
    const memory = figures.memory?.used !== undefined
        ? [`${mebibytes(figures.memory.used)} of ${mebibytes(figures.memory.bound)} MiB between stages`] : [];
    const idle = stages.length - lines.length,
    waits = idle ? [`${plural(idle, "stage")} ${idle > 1 ? "have" : "has"} had no sample yet`] : [];
    const toggled = (event) => (event.target.open ? this.opened.add(job) : this.opened.delete(job));
    return make("details", { "aria-label": `Stages of ${job}`, open: this.opened.has(job), ontoggle: toggled },
        make("summary", {}, "Stages"), make("table", {}, make("thead", {}, head), make("tbody", {}, body)),
        make("p", { class: "muted" }, [...memory, ...waits].join("; ")));
  }

  row(job, stage, now) {
    const key = `${job} ${stage.name}`, before = this.before.get(key);
    const rate = stage.rate
        ?? (before && now > before.seconds ? (stage.out - before.out) / (now - before.seconds) : now ? stage.out / now
        : null);
    this.before.set(key, { out: stage.out, seconds: now });
    // share of its workers
    const busy = Number.isFinite(stage.busy)
        ? `${Math.round(100 * Math.min(1, stage.busy / Math.max(1, stage.workers ?? 1)))} %` : "–";
    const cells = kColumns.map(([name]) => make("td", {},
        name === "rate" ? perSecond(rate) : name === "busy" ? busy : number(stage[name])));
    return [make("td", {}, stage.name), ...cells];
  }
}

/** The stage whose workers are busiest, unless the job names one. */
function boundOf(stages, figures) {
  if (typeof figures.bound === "string") return figures.bound;
  const rest = (stage) => stage.busy / Math.max(1, stage.workers ?? 1);
  const busy = stages.filter((stage) => Number.isFinite(stage.busy));
  return busy.length ? busy.reduce((a, b) => (rest(b) > rest(a) ? b : a)).name : "";
}

/** "about 4:20 left", as the job reckons it, else at the mean rate so far; "" before the first input has ended. */
function left({ left: rest = 0, done = 0, total = 0, seconds: spent }) {
  if (rest >= 1) return `about ${seconds(rest)} left`;
  return done > 0 && done < total && spent > 0 ? `about ${seconds((spent / done) * (total - done))} left` : "";
}

/** "2 of 9 inputs and 27 clips have ended". */
function progress(figures) {
  const made = figures.made ? ` and ${plural(figures.made, "clip")}` : "";
  return `${number(figures.done ?? figures.inputs)} of ${plural(figures.total ?? 0, "input")}${made} ended`;
}

function ended(job, summary) {
  const clips = summary.clips ?? {}, made = (clips.kept ?? 0) + (clips.filtered ?? 0) + (clips.failed ?? 0);
  const of = (counts, names) => {
    const parts = names.filter((name) => counts[name]).map((name) => `${counts[name].toLocaleString("en")} ${name}`);
    return parts.length ? ` (${parts.join(", ")})` : "";
  };
  const videos = `${plural(summary.inputs ?? 0, "video")}${of(summary, ["filtered", "failed"])}`;
  const time = summary.seconds !== undefined ? ` in ${seconds(summary.seconds)}` : "";
  const ends = of(clips, ["kept", "filtered", "failed"]);
  return `${job}: ${summary.status ?? "done"}${time}; ${videos}; ${plural(made, "clip")}${ends}`;
}

/** A job without a result, and why. */
function stopped(job, figures, failure) {
  const after = `after ${seconds(figures.seconds)}, ${progress(figures)}`;
  if (figures.status === "interrupted") return `${job}: interrupted ${after}; give its command again to resume it`;
  return failure ? `${job}: failed ${after}: ${failure}`
      : `${job}: ${figures.status === "failed" ? "failed" : "not finished yet"} ${after}`;
}

/** One line per stage that uses servers, and a total if there are several. */
function paid(usage) {
  const stages = Object.entries(usage), sum = (what) => stages.reduce((n, [, used]) => n + (used[what] ?? 0), 0);
  const line = (name, { requests = 0, prompt_tokens: prompt = 0, completion_tokens: completion = 0, cost }) => {
    const counts = [plural(requests, "request"), plural(prompt, "prompt token"),
                    plural(completion, "completion token")];
    return `${name}: ${[...counts, ...(cost === undefined ? [] : [`cost ${money(cost)}`])].join(", ")}`;
  };
  const lines = stages.map(([name, used]) => line(name, used));
  if (stages.length > 1)
    lines.push(line("All servers",
        { requests: sum("requests"), prompt_tokens: sum("prompt_tokens"), completion_tokens: sum("completion_tokens"),
        cost: stages.some(([, used]) => used.cost !== undefined) ? sum("cost") : undefined }));
  return lines;
}
