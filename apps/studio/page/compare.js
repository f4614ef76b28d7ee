// A copy next to its original: both play together, with the numbers that differ.
import { address, get } from "./api.js";
import { make } from "./elements.js";
import { keyOf, outcome, seconds } from "./format.js";
import { flat, textOf, titleOf } from "./names.js";

const element = (id) => document.getElementById(id);
let turns = 0; // counts requested pairs

/** Opens at once, so that the next keys are the dialog's. clip: a copy, or a clip that has copies, between which the arrows move, or
 * its row. */
export function compare(clip, failed) {
  const [first, others] = clip.copy_id ? [clip.copy_id, [clip.id]] : [clip.id, clip.copies];
  const dialog = element("compare-dialog"), coming = get("/api/clip", { id: first });
  let at = 0;
  const show = async (step) => {
    const turn = ++turns;
    at = Math.min(Math.max(at + step, 0), others.length - 1);
    element("compare-title").textContent = `${keyOf(others[at])}, a copy of ${keyOf(first)}${others.length > 1 ? ` (${at + 1} of ${others.length}, arrows show others)` : ""}`;
    const [original, copy] = await Promise.all([coming, get("/api/clip", { id: others[at] })]);
    if (turn === turns && dialog.open) element("compared").replaceChildren(figure("Original", original, copy), figure("Copy", copy, original)); // else the user has moved on
  };
  const move = (step) => show(step).catch(failed);
  const videos = () => [...dialog.querySelectorAll("video")];
  dialog.onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step && others.length > 1) move(step);
    else if (event.key === " " && !event.target.closest("button")) {
      const isPaused = videos().every((video) => video.paused);
      for (const video of videos()) isPaused ? video.play().catch(() => {}) : video.pause();
    } else return;
    event.preventDefault();
  };
  dialog.onclose = () => element("compared").replaceChildren(); // stops both
  dialog.showModal();
  move(0);
}

function figure(title, clip, other) {
  const video = make("video", { src: clip.media && !clip.is_picture ? address("/video", clip.id) : "", muted: true, loop: clip.media === "clip", playsInline: true, preload: "metadata", "aria-label": `${title}: ${clip.key}` });
  const image = make("img", { src: clip.media && clip.is_picture ? address("/video", clip.id) : "", alt: `${title}: ${clip.key}` });
  if (clip.media === "film" && clip.start_s) video.addEventListener("loadedmetadata", () => (video.currentTime = clip.start_s));
  const facts = make("dl", { class: "facts" });
  for (const [name, value] of numbers(clip.facts ?? {})) {
    const its = new Map(numbers(other.facts ?? {})).get(name);
    if (its !== value) facts.append(make("dt", { title: name }, titleOf(name)), make("dd", {}, textOf(name, value)));
  }
  return make("figure", {}, clip.media ? (clip.is_picture ? image : video) : make("p", { class: "nothing" }, "There is nothing to play."), make("figcaption", {}, make("h3", {}, `${title}: ${clip.key}`), make("p", {}, `${outcome(clip)}, ${seconds(clip.duration_s)}. ${clip.caption}`)), facts);
}

const numbers = (facts) => [...flat(facts)].filter(([, value]) => typeof value === "number");
