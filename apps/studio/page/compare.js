// A copy next to the clip that was kept: both play together, with their facts, of which those that differ are marked.
// One of them can be rejected.
import { address, get } from "./api.js";
import { make } from "./elements.js";
import { fileSize, hint, keyOf, number, outcome, replacedBy, seconds } from "./format.js";
import { factGroups, whereName } from "./names.js";
import { Pair } from "./pair.js";
import { element } from "./status.js";

export class Compare {
  constructor(actions, failed) {
    // turns: counts requested pairs
    Object.assign(this, { actions, failed, dialog: element("compare-dialog"), turns: 0, pair: new Pair() });
    this.decisions = make("div", { class: "decisions" });
    this.dialog.addEventListener("keydown", (event) => this.key(event));
    this.dialog.addEventListener("close", () => (this.pair.clear(), element("compared").replaceChildren()));
  }

  /** Opens at once, so that the next keys are the dialog's. clip: a copy, or a clip that has copies, between which the
   * arrows move, or its row. */
  open(clip) {
    const [first, others] = clip.copy_id ? [clip.copy_id, [clip.id]] : [clip.id, clip.copies];
    Object.assign(this, { first, others, at: 0 });
    for (const id of ["compare-why", "compare-said", "compare-facts"]) element(id).replaceChildren();
    element("compared").replaceChildren(this.pair.element, this.decisions);
    this.decisions.replaceChildren();
    this.pair.whole();
    this.dialog.showModal();
    this.show().catch(this.failed);
  }

  async show() {
    const turn = ++this.turns, { first, others, at } = this;
    const place = others.length > 1 ? ` (${at + 1} of ${others.length}, arrows show others)` : "";
    element("compare-title").textContent = `${keyOf(others[at])}, a copy of ${keyOf(first)}${place}`;
    const [original, copy] = await Promise.all([first, others[at]].map((id) => get("/api/clip", { id })));
    if (turn === this.turns && this.dialog.open) this.draw(original, copy); // else the user has moved on
  }

  draw(original, copy) {
    const { act } = document.activeElement?.dataset ?? {};
    element("compare-why").textContent = copy.copy_why ?? "";
    const later = laterBy(original, copy);
    this.pair.show([medium("Kept", original, Math.max(later, 0)), medium("Copy", copy, Math.max(-later, 0))],
        original.facts?.width / original.facts?.height);
    this.decisions.replaceChildren(this.about("Kept", original), this.about("Copy", copy, original));
    element("compare-facts").replaceChildren(table(original, copy));
    element("compare-said").textContent = decided(original, copy);
    if (act) (element("compared").querySelector(`[data-act="${act}"]`) ?? element("compare-title")).focus();
  }

  /** What the clip is, and its buttons. original: of a copy. */
  about(title, clip, original) {
    const act = (what, label, key, run) => make("button",
        { type: "button", "data-act": `${what} ${title}`, "aria-label": `${label}: ${clip.key}`,
        "aria-keyshortcuts": key,
        "aria-pressed": what === "reject" ? clip.decision === "rejected" : undefined,
        onclick: () => this.after(run()) }, label, hint(key));
    const canReplace = original && clip.end === "copy" && clip.decision !== "rejected"
        && original.decision !== "rejected";
    const buttons = [act("reject", "Reject", original ? "x" : "Shift+X", () => this.actions.reject(clip.id)),
        ...(canReplace
        ? [act("keep", "Keep this one instead", "k", () => this.actions.keepInstead(original, clip))] : [])];
    const length = clip.is_picture ? "one frame" : seconds(clip.duration_s);
    return make("div", {}, make("h3", {}, `${title}: ${clip.key}`),
        make("p", {}, `${outcome(clip)}, ${length}. ${clip.caption}`), make("div", { class: "row" }, buttons));
  }

  /** Shows both again once a decision is saved. */
  after(saving) {
    saving.then(() => this.dialog.open && this.show()).catch(this.failed);
  }

  /** Whether the key decides: x and k press buttons, r rejects without a reason; with Shift the clip that was kept. */
  decides({ key }) {
    const act = { x: "reject Copy", X: "reject Kept", k: "keep Copy" }[key];
    const id = { r: this.others[this.at], R: this.first }[key];
    if (act) this.decisions.querySelector(`[data-act="${act}"]`)?.click();
    if (id) this.after(this.actions.rejectOne(id));
    return Boolean(act || id);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], isEdge = event.target === this.pair.edge;
    if (step && isEdge && !event.shiftKey) return;
    const canStep = step && !event.shiftKey && this.others.length > 1;
    const plays = event.key === " " && !event.target.closest("button");
    if (!this.pair.key(event) && !canStep && !plays && !this.decides(event)) return;
    event.preventDefault();
    if (plays) this.play();
    if (!canStep) return;
    this.at = Math.min(Math.max(this.at + step, 0), this.others.length - 1);
    this.show().catch(this.failed);
  }

  /** Both from the same time of their clips. */
  play() {
    const videos = [...this.dialog.querySelectorAll("video")], isPaused = videos.every((video) => video.paused);
    const [first] = videos, time = first ? first.currentTime - first.start : 0;
    for (const video of videos) {
      if (Math.abs(video.currentTime - video.start - time) > 0.02) video.currentTime = video.start + time;
      isPaused ? video.play().catch(() => {}) : video.pause();
    }
  }
}

/** Seconds into the kept clip at which the copy begins, as the job's reason says, so that both show the same moment; a
 * reason about another copy says nothing of this pair. */
function laterBy(original, { copy_why: why = "" }) {
  const [, seconds, side] = /, ([\d.]+) s (later|earlier)$/.exec(why) ?? [];
  if (!seconds || !why.startsWith(`copy of ${original.key}: `)) return 0;
  return side === "later" ? Number(seconds) : -Number(seconds);
}

/** The player or picture of a clip, from so many seconds of it on. */
function medium(title, clip, from) {
  const source = clip.media ? address("/video", clip.id) : "", label = `${title}: ${clip.key}`;
  if (!clip.media) return make("p", { class: "nothing" }, "There is nothing to play.");
  if (clip.is_picture) return make("img", { src: source, alt: label, draggable: false });
  const video = make("video",
      { src: source, muted: true, loop: clip.media === "clip", playsInline: true, preload: "metadata",
      "aria-label": label });
  video.start = from + (clip.media === "video" ? clip.start_s ?? 0 : 0);
  if (video.start) video.addEventListener("loadedmetadata", () => (video.currentTime = video.start));
  return video;
}

/** Facts of both, each with whether they differ; of the less known ones those that do. */
function table(original, copy) {
  const [a, b] = [original,
      copy].map((clip) => new Map(facts(clip).map(([title, text, name, group]) => [name, { title, text, group }])));
  const rows = [...new Set([...a.keys(), ...b.keys()])].flatMap((name) => {
    const { title, group } = a.get(name) ?? b.get(name), texts = [a, b].map((of) => of.get(name)?.text ?? "–"),
    differs = texts[0] !== texts[1];
    if (!differs && group === "Other") return [];
    return [make("tr", { class: differs ? "differs" : "", "data-fact": name },
        make("th", { scope: "row", title: whereName(name) }, title), texts.map((text) => make("td", {}, text)),
        make("td", {}, differs ? "differs" : ""))];
  });
  const head = ["Fact", "Kept", "Copy", "Differs"].map((title) => make("th", { scope: "col" }, title));
  return make("table", {}, make("thead", {}, make("tr", {}, head)), make("tbody", {}, rows));
}

/** [[title, text, name, group], ...]: those of the stored file, and those that the panel of a clip has. */
function facts({ bytes, duration_s: duration, facts: all, reason }) {
  const file = bytes
      ? [["File size", fileSize(bytes), "file size"],
      ...(duration ? [["Bit rate", `${number((8 * bytes) / duration / 1000)} kbit/s`, "bit rate"]] : [])] : [];
  const [length, ...others] = factGroups(all ?? {},
      reason).map(([group, list]) => list.map((fact) => [...fact, group]));
  return [...(length ?? []), ...file, ...others.flat()];
}

/** Says the decisions, and which clip takes the place of a rejected one. */
function decided(original, copy) {
  const stays = (clip,
      of) => (clip.end === of && clip.decision !== "rejected" ? `${clip.key} stays.`
      : "No copy is left to take its place.");
  if (original.decision === "rejected")
    return `${original.key} is rejected. ${original.copies.length ? replacedBy(original) : stays(copy, "kept")}`;
  return copy.decision === "rejected" ? `${copy.key} is rejected; ${original.key} stays.` : "";
}
