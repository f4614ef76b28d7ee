// How long each job took, and the run's options and versions.
import { percent } from "./charts.js";
import { make, styled } from "./elements.js";
import { note, section, table } from "./parts.js";
import { duration } from "./words.js";

const shareText = (share) => (share > 0 && share < 0.001 ? "< 0.1%" : `${(100 * share).toFixed(1)}%`);

export function times(jobs) {
  const total = jobs.reduce((sum, { seconds }) => sum + (seconds ?? 0), 0),
  longest = Math.max(...jobs.map(({ seconds }) => seconds ?? 0), 0);
  const rows = jobs.map(({ name, seconds, missing }) => {
    if (seconds === null)
      return [name, "–", "", make("span", { class: "muted" }, missing ? "not finished" : "not measured")];
    return [name, duration(seconds), [shareText(seconds / (total || 1)), "muted"],
        styled(make("i"), { width: percent(seconds / (longest || 1)) })];
  });
  return section("time", "Time per job",
      table(`Time of each job: ${duration(total)} in all`,
      [["Job", "t"], ["Time", "n"], ["Share", "n"], ["Compared", "bar"]], rows));
}

/** Highlights comments and headings of the TOML. Each line is parsed alone, so multi-line text may be coloured wrongly;
 * nothing else
 * depends on it. */
function highlighted(line) {
  const first = line.trimStart()[0], equals = line.indexOf("="), quoted = line.search(/["'#]/);
  if (first === "#") return [make("span", { class: "muted" }, line)];
  if (first === "[" && equals < 0) return [make("b", {}, line)];
  if (equals >= 0 && (quoted < 0 || quoted > equals))
    return [make("span", { class: "name" }, line.slice(0, equals)), line.slice(equals)];
  return [line];
}

export function settings({ toml, file, version, jobs }) {
  const text = (name, ...children) => make("pre", { tabIndex: 0, "aria-label": name }, ...children);
  const parts = jobs.flatMap(({ name, components }) =>
      components.map(({ slot, id, version: of }) => [name, [slot, "muted"], id, of]));
  return section("settings", "Run file and versions",
    toml ? text("The run file", toml.split(/(?<=\n)/).flatMap(highlighted))
        : note(`The run file ${file} can no longer be read.`),
    table("Versions of the components of each job", [["Job", "t"], ["Slot", "t"], ["Component", "t"], ["Version", "t"]],
        [["Kinora", "", "", version], ...parts]),
    make("details", {}, make("summary", {}, "All options as used, including defaults"),
        jobs.flatMap(({ name, kind, options }) => [make("h3", {}, `${name} · ${kind}`),
        text(`Options of ${name}`, options)])));
}
