// Outcomes of all inputs and clips from items.jsonl, compared with the counts of summary.json.
import { make, styled } from "./elements.js";
import { figures } from "./facts.js";
import { boundText } from "./source_videos.js";
import { eachJob, rest, section, table } from "./parts.js";
import { count, counted, number, timecode } from "./words.js";

const kEnds = ["kept", "filtered", "failed"];
const sum = (counts) => kEnds.reduce((n, end) => n + counts[end], 0);

/** Whether "12 clips = 9 kept + 2 filtered + 1 failed" is true. */
function verdict(all, said, found, isWhole) {
  const [fails, lines] = ["check failed", kEnds.map((end) => `${count(found[end])} ${end}`).join(", ")];
  if (all !== sum(said))
    return make("p", { class: fails }, `✗ Does not add up: the outcomes sum to ${count(sum(said))}.`);
  if (!isWhole || kEnds.some((end) => said[end] !== found[end]))
    return make("p", { class: fails },
    `✗ items.jsonl has ${lines}${isWhole ? "" : ", and lines that cannot be read"}.`);
  return make("p", { class: "check" },
      `✓ Adds up, and items.jsonl has ${all === 1 ? "its line" : `a line for each of the ${count(all)}`}.`);
}

function equation(one, all, said, found, isWhole) {
  const parts = kEnds.map((end, i) => make("span", { class: end }, make("i", {}, i ? "+" : "="),
      make("b", {}, count(said[end])), end));
  const bars = kEnds.filter((end) => said[end] > 0).map((end) => styled(make("i", { class: end }),
      { "flex-grow": said[end] }));
  return make("div", { class: "sum" },
    make("p", { class: "equation" }, make("span", {}, make("b", {}, count(all)), all === 1 ? one : `${one}s`), parts),
    make("div", { class: "share", "aria-hidden": "true" }, bars), verdict(all, said, found, isWhole));
}

function endText({ end, reason, is_cut: isCut, is_damaged: isDamaged }) {
  const more = isDamaged ? ", damaged" : "";
  if (!end) return "no line in items.jsonl";
  if (end === "filtered") return `filtered by ${reason}${more}`;
  return (end === "kept" && isCut ? "kept: cut into clips" : end) + more;
}

function inputs({ list, more }) {
  const rows = list.map((video) => [video.key, [endText(video), video.end],
      video.seconds === null ? "–" : timecode(video.seconds),
      ...["shots", "clips", ...kEnds].map((name) => count(video[name]))]);
  const numbers = ["Length", "Shots", "Clips", "Kept", "Filtered", "Failed"].map((name) => [name, "n"]);
  return [table("Every input, and the clips made of it", [["Input", "t"], ["Outcome", "t"], ...numbers], rows),
      ...rest(more, "more input", " in items.jsonl.")];
}

function rules(list) {
  if (!list.length) return [];
  const rows = list.map(({ rule, stage, count: n, bounds, lowest, highest, scores }) => {
    const range = !scores ? "" : number(lowest[0].score) + (scores > 1 ? ` to ${number(highest)}` : "");
    const whose = lowest.map(({ key, score }) => `${key} (${number(score)})`).join(", ") + (scores > lowest.length
        ? ` and ${count(scores - lowest.length)} more` : "");
    return [[rule, "filtered"], stage, count(n), range, bounds.map(boundText).join("; "), [whose, "wide"]];
  });
  return [table("Filtered, by rule",
      [["Rule", "t"], ["Stage", "t"], ["Items", "n"], ["Scores", "n"], ["Kept", "t"],
      ["Which, with their scores", "t"]], rows, "at-rules")];
}

function failures({ list, more }) {
  if (!list.length) return [];
  const rows = list.map(({ key, stage, reason }) => [[key, "failed"], stage, [reason, "wide"]]);
  return [table("Failed, with the error", [["Item", "t"], ["Stage", "t"], ["Error", "t"]], rows,
      "at-failures"),
      ...rest(more, "more failure", " in items.jsonl.")];
}

function curation(
    { outcomes: { all, damaged, without_result: without, is_whole: isWhole, said, found, inputs: videos, rules: filters,
        failures: errors } }) {
  const sums = [equation("input", all, said.inputs, found.inputs, isWhole)];
  if (damaged > 0)
    sums.push(make("p", { class: "check failed" },
    `✗ ${counted(damaged, "input")} damaged: what could be decoded was used.`));
  for (const [stage, n] of Object.entries(without))
    sums.push(make("p", { class: "check failed" },
    `✗ ${counted(n, "input")} ended in stage ${stage} without a result.`));
  sums.push(equation("clip", sum(said.clips), said.clips, found.clips, isWhole));
  return [make("div", { class: "sums" }, sums), ...inputs(videos), ...rules(filters), ...failures(errors)];
}

function selection(job) {
  const { steps, sets, tables, bins, more_bins: moreBins } = job.selection,
  share = (value) => `${number(100 * value)}\u00A0%`;
  const rows = steps.map(({ rule, in: came, removed }) => [[rule, "filtered"], count(came), count(removed),
      count(came - removed)]);
  const bySteps = rows.length
      ? [table("Left out, step by step", [["Condition", "t"], ["Came in", "n"], ["Left out", "n"], ["Stayed", "n"]],
      rows)] : figures(job);
  const joined = tables.map(({ name, rows: all, rows_of_clips: used, clips }) => [name, count(all), count(used),
      count(clips)]);
  return [...bySteps,
    ...(joined.length
        ? [table("Joined tables", [["Table", "t"], ["Rows", "n"], ["Rows about clips", "n"], ["Clips with a row", "n"]],
        joined)] : []),
    ...(bins.length ? [table("Chosen clips by value", [["Value", "t"], ["Clips", "n"]],
        bins.map(({ name, clips }) => [name, count(clips)]))] : []),
    ...rest(moreBins, "more value", " in summary.json."),
    ...(sets.length ? [table("Sets", [["Set", "t"], ["Clips", "n"], ["Share", "n"], ["Asked for", "n"]],
        sets.map(({ name, clips, share: is, asked }) => [name, count(clips), share(is), share(asked)]))] : [])];
}

const titled = (id, title, jobs, draw = figures) => (jobs.length
    ? [make("h3", { id }, title), ...eachJob(jobs, draw)] : []);

export const outcomes = (jobs, copies, selections, shards) => section("outcomes", "Outcomes", eachJob(jobs, curation),
  titled("copies", "Copies", copies), titled("chosen", "Chosen clips", selections, selection),
  titled("shards", "Shards", shards));
