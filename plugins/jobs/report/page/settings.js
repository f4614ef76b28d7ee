// How long each job took, and the run's options and versions.
import { percent } from "./charts.js";
import { make, styled } from "./elements.js";
import { note, section, table } from "./parts.js";
import { coloured } from "./toml.js";
import { counted, duration } from "./words.js";

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

export function settings({ toml, file, version, jobs }) {
  const text = (name, ...children) => make("pre", { tabIndex: 0, "aria-label": name }, ...children);
  const parts = jobs.flatMap(({ name, components }) =>
      components.map(({ slot, id, version: of }) => [name, [slot, "muted"], id, of]));
  const others = parts.filter(([, , , of]) => of !== version), same = parts.length - others.length;
  return section("settings", "Run file and versions",
    toml ? text("The run file", coloured(toml))
        : note(`The run file ${file} can no longer be read.`),
    same ? make("p", { class: "versions" },
        `${counted(same, "component")} of version ${version}, which is Kinora’s own`) : null,
    others.length ? table("Components of other versions",
        [["Job", "t"], ["Slot", "t"], ["Component", "t"], ["Version", "t"]], others) : null,
    make("details", {}, make("summary", {}, "All options as used, including defaults"),
        jobs.flatMap(({ name, kind, options }) => [make("h3", {}, `${name} · ${kind}`),
        text(`Options of ${name}`, options)])));
}
