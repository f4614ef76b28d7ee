// Outcomes of all inputs and clips from items.jsonl, compared with the counts of summary.json.
import { make, styled } from "./elements.js";
import { figures } from "./facts.js";
import { eachJob, fileOf, picture, rest, section, table } from "./parts.js";
import { count, counted, number, ruleBound, scoreText, timecode } from "./words.js";

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

/** The outcome of an input in words, and its class. */
function outcomeOf({ end, reason, of, clips, kept, filtered, is_cut: isCut, is_damaged: isDamaged }) {
  const more = isDamaged ? ", damaged" : "";
  if (!end) return ["no line in items.jsonl", ""];
  if (of) return [`the file of ${of} again${more}`, end];
  if (end === "filtered") return [`filtered by ${reason}${more}`, end];
  if (end === "kept" && isCut && !kept)
    return [(!clips ? "no clip was made of it" : filtered === clips ? "all clips filtered" : "no clip kept") + more,
        "filtered"];
  return [(end === "kept" && isCut ? "kept: cut into clips" : end === "failed" && kept ? "failed in part" : end) + more,
      end];
}

function inputs({ list, more }) {
  const underName = (video, [text, kind]) => make("span", { class: `outcome ${kind}` }, text);
  const path = (video) => (video.path ? [" ", make("span", { class: "muted" }, video.path)] : []);
  const rows = list.map((video) => [[[video.key, ...path(video), underName(video, outcomeOf(video))], ""],
      outcomeOf(video),
      video.seconds === null ? "–" : timecode(video.seconds),
      ...["shots", "clips", ...kEnds].map((name) => count(video[name]))]);
  const numbers = ["Length", "Shots", "Clips", "Kept", "Filtered", "Failed"].map((name) => [name, "n"]);
  return [table("Every input, and the clips made of it", [["Input", "t"], ["Outcome", "t"], ...numbers], rows,
      "at-inputs"),
      ...rest(more, "more input", " in items.jsonl.")];
}

function rules(list) {
  if (!list.length) return [];
  const rows = list.map(({ rule, stage, count: n, bounds, lowest, highest, scores, ...more }) => {
    const { copies, more_copies: moreCopies } = more;
    if (copies.length) {
      const which = copies.map(({ key, of }) => `${key} (the file of ${of} again)`).join(", ");
      return [[rule, "filtered"], stage, count(n), "", "",
          [which + (moreCopies ? ` and ${count(moreCopies)} more` : ""), "wide"]];
    }
    const text = (score) => scoreText(rule, score, bounds);
    const range = !scores ? "" : text(lowest[0].score) + (scores > 1 ? ` to ${text(highest)}` : "");
    const whose = lowest.map(({ key, score }) => `${key} (${text(score)})`).join(", ") + (scores > lowest.length
        ? ` and ${count(scores - lowest.length)} more` : "");
    const keeps = bounds.map((bound) => ruleBound(rule, bound)).join("; ");
    return [[rule, "filtered"], stage, count(n), range, keeps, [whose, "wide"]];
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

const kRules = { "studio.reject": "Rejected in the studio", "dedup.exact": "The same bytes as another clip",
  "dedup.semantic": "Copies of other clips" };

function leftOutClip({ key, of, score, picture: own, picture_of: other }) {
  const pictures = [own, other].filter(Boolean).map((one) => picture(one, ""));
  const why = of ? `copy of ${of}${score === null || score === 1 ? "" : `, likeness ${number(score, 4)}`}`
      : score === null ? "" : number(score);
  return make("li", {}, pictures.length ? make("span", { class: "pictures" }, pictures) : null,
      make("span", {}, key, " ", make("span", { class: "muted" }, why)));
}

/** The clips that a job left out, the first few of each rule, with what its condition compares. */
function leftOut({ name, left_out: rules, selection: chosen }) {
  const place = ({ rule }) => chosen?.steps.findIndex((step) => step.rule === rule) ?? 0;
  return [...rules].sort((a, b) => place(a) - place(b)).map(({ rule, list, more }) =>
    make("div", { class: "left-out" }, make("h4", {}, kRules[rule] ?? rule),
      /^letterbox\b/.test(rule) ? make("p", { class: "muted" },
          "Black borders: crop = true in the stage video.clips cuts them off and keeps such clips.") : null,
      make("ul", {}, list.map(leftOutClip)),
      rest(more, "more clip", ` in ${name}/decisions.jsonl.`)));
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
  return [...bySteps, ...leftOut(job),
    ...(joined.length
        ? [table("Joined tables", [["Table", "t"], ["Rows", "n"], ["Rows about clips", "n"], ["Clips with a row", "n"]],
        joined)] : []),
    ...(bins.length ? [table("Chosen clips by value", [["Value", "t"], ["Clips", "n"]],
        bins.map(({ name, clips }) => [name, count(clips)]))] : []),
    ...rest(moreBins, "more value", " in ", fileOf(job, "summary.json"), "."),
    ...(sets.length ? [table("Sets", [["Set", "t"], ["Clips", "n"], ["Share", "n"], ["Asked for", "n"]],
        sets.map(({ name, clips, share: is, asked }) => [name, count(clips), share(is), share(asked)]))] : [])];
}

const titled = (id, title, jobs, draw = figures) => (jobs.length
    ? [make("h3", { id }, title), ...eachJob(jobs, draw)] : []);

/** In the order of the run: copiesFirst: a dedup job comes before the select jobs. */
export function outcomes(jobs, copies, selections, shards, copiesFirst) {
  const choices = [titled("copies", "Copies", copies, (job) => [...figures(job), ...leftOut(job)]),
      titled("chosen", "Chosen clips", selections, selection)];
  return section("outcomes", "Outcomes", eachJob(jobs, curation), ...(copiesFirst ? choices : choices.reverse()),
      titled("shards", "Shards", shards));
}
