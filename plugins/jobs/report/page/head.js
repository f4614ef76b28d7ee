// The head of the report: what was run, how much is left of it, the kept clips in motion, and the contents.
import { make } from "./elements.js";
import { funnel } from "./funnel.js";
import { note } from "./parts.js";
import { count, counted, duration } from "./words.js";

// The sections, or classes of parts, the preferred one first, that show a step of the funnel, and what fell before.
const kSteps = { videos: ["source-videos"], inputs: ["outcomes"], clips: ["outcomes"], good: ["outcomes"],
  chosen: ["chosen", "copies"], "in shards": ["shards"] };
const kFell = { filtered: ["rules"], failed: ["failures"] };

/** Links of the funnel to ids in `main`; jobs: of the run. */
function linkIn(main, jobs) {
  const kindOf = (name) => jobs.find((job) => job.name === name)?.kind;
  return (step, by, children) => {
    const ids = !by || step === "in shards" ? kSteps[step]
        : step === "chosen" ? [kindOf(by) === "dedup" ? "copies" : "chosen"]
        : step === "clips" && by === "failed" ? ["failed-inputs", "failures"] : kFell[by];
    const [id, part] = ids.map((one) => [one,
        main.querySelector(`#${one}, .at-${one}`)]).find(([, found]) => found) ?? [];
    if (part) part.id = id;
    return make(id ? "a" : "span", { class: by === undefined ? "step" : "lost", href: id && `#${id}` }, children);
  };
}

/** Previews of kept clips, each whole and in its own shape; still if the reader wants no motion. */
function wall(previews) {
  if (!previews.length) return [];
  const pictures = previews.map(({ key, width, height, is_left_out: isLeftOut }) => {
    const name = isLeftOut ? `${key}, left out later` : key;
    return make("img", { width, height, alt: name, title: name, class: isLeftOut ? "later" : null });
  });
  const later = previews.filter((one) => one.is_left_out).length, first = previews.length - later;
  const text = later ? `${counted(first, "chosen clip")}, ${count(later)} left out later` : counted(first, "kept clip");
  const button = make("button", { type: "button", onclick: () => show(!moves) });
  let moves;
  const show = (isMoving) => {
    moves = isMoving;
    button.textContent = moves ? "Pause" : "Play";
    pictures.forEach((picture, i) => (picture.src = moves ? previews[i].uri : previews[i].still));
  };
  show(!matchMedia("(prefers-reduced-motion: reduce)").matches);
  return [make("div", { class: "wall", role: "group", "aria-label": "Kept clips" }, pictures),
      make("p", { class: "playing" }, button,
      make("span", { class: "muted" }, text))];
}

/** Links to the sections of a long page, and to their parts that the funnel names. */
function contents(main) {
  const sections = [...main.querySelectorAll("section")];
  if (sections.length < 4) return null;
  const link = (part) => make("li", {}, make("a", { href: `#${part.id}` },
      (part.querySelector("h2") ?? part).textContent));
  return make("nav", { "aria-label": "Contents" },
      make("ul", {}, [...main.querySelectorAll("section, h3[id]")].map(link)));
}

/** main: the page's sections. */
export function head({ title, file, seed, version, finished, seconds, figures, funnel: steps, wall: previews, jobs },
    main) {
  const about = [file, `seed ${seed}`, `Kinora ${version}`, `${duration(seconds)} in all`];
  if (finished.length >= 16) about.push(`finished ${finished.slice(0, 10)} ${finished.slice(11, 16)} UTC`);
  const figure = ({ name, value, more }) => make("div", {}, make("dt", {}, name), make("dd", {}, value),
      more ? make("dd", { class: "more" }, more) : null);
  const unfinished = jobs.filter(({ missing }) => missing).length;
  return make("header", {}, make("h1", {}, title), make("p", { class: "muted" }, about.join(" · ")),
      funnel(steps, linkIn(main, jobs)), wall(previews),
      figures.length ? make("dl", { class: "figures" }, figures.map(figure)) : null,
      unfinished ? note(
      `This run is not complete: ${counted(unfinished, "job")} ${unfinished === 1 ? "has" : "have"} not finished.`)
      : null, contents(main));
}
