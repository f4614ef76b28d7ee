// The selected clip: player, decision, caption, shots of its source video, numbers and history.
import { said } from "./actions.js";
import { address, get } from "./api.js";
import { make } from "./elements.js";
import { hint, markClass, number, outcome, replacedBy, seconds } from "./format.js";
import { boundText, factGroups, flat, textOf, titleOf, whereName } from "./names.js";
import { Trimming } from "./trim.js";

export class Detail {
  constructor(element, editor, timeline, actions) {
    Object.assign(this, { element, editor, timeline, actions });
    this.video = make("video",
        { preload: "metadata", controls: true, tabIndex: 0, playsInline: true,
        "aria-label": "Player. Space plays and pauses, arrows step frames" });
    this.video.addEventListener("keydown", (event) => this.playerKey(event), true);
    this.video.addEventListener("loadedmetadata", () => this.toStart());
    this.video.addEventListener("timeupdate", () => this.atEnd());
    this.video.addEventListener("play", () => this.watch());
    this.video.addEventListener("error", () => this.video.hasAttribute("src") && this.failed());
    this.clip = null; // the last clip shown
    this.playsNext = false; // the clip that is selected next plays at once
    this.wanted = ""; // id of the selected clip
    this.head = make("h2");
    this.mark = make("span", { class: "mark" });
    this.about = make("span", { class: "muted" });
    this.note = make("div");
    this.buttons = make("div", { class: "row" });
    this.tags = make("div", { class: "row", role: "group", "aria-label": "Tags" });
    this.rest = make("div");
    this.trimming = new Trimming(this);
    this.shots = make("div", { hidden: true }, make("h3", {}, "Shots of the video"), timeline.element, timeline.legend);
  }

  /** Shows the selected clip: the contents of its row at once, the rest when it arrives. row null: the row has not
   * arrived either. */
  select(row, isExpected) {
    clearTimeout(this.soon);
    this.asking?.abort();
    this.wanted = row?.id ?? "";
    if (!this.screen) this.build(); // the next key may open the caption
    this.editor.show(row ?? { id: "" }, isExpected);
    this.head.textContent = row ? row.key : "…";
    this.mark.textContent = row?.end ? outcome(row) : "";
    this.mark.className = row?.end ? markClass(row) : "mark";
    const isIn = this.clip?.id === this.wanted;
    this.element.setAttribute("aria-busy", !isIn);
    for (const part of [this.screen, this.shots]) part.classList.toggle("stale", !isIn); // they show the clip before
    for (const part of [this.about, this.note, this.rest, this.tags]) part.classList.toggle("outdated", !isIn);
    for (const [decision, name] of [["accepted", "accept"], ["rejected", "reject"]])
      this.buttons.querySelector(`.${name}`)?.setAttribute("aria-pressed", row?.decision === decision);
    if (!isIn) {
      this.video.pause();
      this.plays = this.playsNext; // starts once a video is loaded
    }
    if (row) this.playsNext = false;
    // skips clips that are only scrolled past
    if (row) this.soon = setTimeout(() => this.show(row.id).catch(this.actions.failed), 50);
  }

  /** No clip is selected. */
  clear() {
    clearTimeout(this.soon);
    clearTimeout(this.loading);
    this.asking?.abort();
    this.video.pause();
    Object.assign(this, { wanted: "", clip: null, screen: undefined });
    this.editor.show({ id: "" });
    this.element.replaceChildren(make("p", { class: "muted" }, "No clip is selected: the view is empty."));
    this.element.setAttribute("aria-busy", "false");
  }

  async show(id) {
    this.asking?.abort();
    const { signal } = (this.asking = new AbortController());
    const clip = await get("/api/clip", { id }, signal);
    signal.throwIfAborted();
    await this.set(clip);
  }

  /** Shows a whole clip. Drops a clip that is no longer selected, and an answer that was requested before this one. */
  async set(clip) {
    if (clip.id !== this.wanted) return;
    this.asking?.abort();
    const isNew = this.clip?.id !== clip.id;
    this.clip = clip;
    this.editor.show(clip);
    if (isNew) this.load(clip);
    this.draw(clip, isNew);
    this.element.setAttribute("aria-busy", "false");
    this.trimming.show(clip);
    this.whyNot(clip).then((parts) => clip === this.clip && this.note.append(...parts)).catch(this.actions.failed);
    const video = clip.video || clip.key;
    const shots = await this.timeline.show(clip.id, `${clip.id.slice(0, clip.id.length - clip.key.length)}${video}`,
        clip.version);
    if (clip !== this.clip) return;
    this.shots.hidden = !shots;
    this.shots.classList.remove("stale");
  }

  /** What would keep a clip that was left out: elements. Set by the page. */
  async whyNot() {
    return [];
  }

  draw(clip, isNew) {
    for (const part of [this.about, this.note, this.rest, this.tags]) part.classList.remove("outdated");
    this.head.textContent = clip.key;
    this.mark.className = markClass(clip);
    this.mark.textContent = outcome(clip);
    this.note.replaceChildren(...notes(clip), ...this.copied(clip));
    const accept = clip.acceptable && make("button",
        { type: "button", class: "accept", "aria-pressed": clip.decision === "accepted", onclick: this.actions.accept },
        "Accept", hint("a"));
    const reject = make("button",
        { type: "button", class: "reject", "aria-pressed": clip.decision === "rejected", onclick: this.actions.reject },
        "Reject", hint("x"));
    const isBroken = isUnreadable(clip);
    this.editor.element.hidden = this.tags.hidden = isBroken && !clip.captioned && !clip.decision;
    const focused = this.buttons.contains(document.activeElement)
        ? [...this.buttons.children].indexOf(document.activeElement) : -1;
    this.buttons.replaceChildren(...(accept ? [accept] : []), ...(isBroken && !clip.decision ? [] : [reject]),
        ...this.alike(clip));
    this.about.textContent = [clip.place, clip.duration_s && seconds(clip.duration_s),
        clip.fps && `${number(clip.fps)} frames/s`].filter(Boolean).join(", ");
    if (focused >= 0) this.buttons.children[focused].focus();
    this.tags.replaceChildren(
        ...clip.tags.map((tag) => make("button",
        { type: "button", "aria-label": `Remove the tag ${tag}`, onclick: () => this.actions.untag(clip.id, tag) },
        `${tag} ×`)), make("button", { type: "button", onclick: this.actions.tag }, "Tag", hint("t")));
    this.rest.replaceChildren(...tables(clip));
    if (isNew) this.element.scrollTop = 0;
  }

  /** Controls for more clips like this one, by any embedding that it has. */
  alike(clip) {
    const names = clip.embeddings ?? [];
    if (!names.length) return [];
    if (!names.includes(this.embedding)) this.embedding = names[0];
    const choose = make("select",
        { "aria-label": "Embedding", onchange: (event) => (this.embedding = event.target.value) },
        names.map((name) => make("option", { value: name, selected: name === this.embedding }, name)));
    return [make("button", { type: "button", onclick: this.actions.alike }, "More like this", hint("m")),
        ...(names.length > 1 ? [choose] : [])];
  }

  /** From a copy to its original, and both next to each other. */
  copied(clip) {
    if (!clip.copy_id && !clip.copies.length) return [];
    const original = clip.copy_id && make("button", { type: "button", onclick: this.actions.original },
        `Show ${clip.copy_of}`, hint("o"));
    return [make("div", { class: "row" }, ...(original ? [original] : []),
        make("button", { type: "button", onclick: this.actions.compare }, "Compare", hint("b")))];
  }

  build() {
    this.screen = make("div");
    const close = make("button", { type: "button", id: "close", onclick: this.actions.close }, "Close");
    const steps = [[-1, "‹ Previous"], [1, "Next ›"]].map(([by, text]) => make("button",
        { type: "button", onclick: () => this.actions.move(by) }, text));
    this.element.replaceChildren(make("div", { class: "title" }, this.head, close,
        make("p", { class: "under" }, this.mark, " ", this.about)), make("div", { class: "steps" }, steps), this.screen,
        make("div", { class: "row" }, this.buttons, this.tags), this.note, this.editor.element, this.shots, this.rest);
  }

  load(clip) {
    this.video.pause();
    this.screen.classList.remove("stale");
    this.tries = 0;
    clearTimeout(this.loading);
    if (!clip.media || isUnreadable(clip)) {
      this.video.removeAttribute("src");
      this.video.load();
      this.screen.replaceChildren(make("p", { class: "nothing" }, nothingToPlay(clip)));
      return;
    }
    this.screen.replaceChildren(clip.is_picture ? make("img", { src: address("/video", clip.id), alt: clip.caption })
        : this.video);
    this.video.removeAttribute("src");
    this.video.load(); // ends the request of the clip before, and takes away its last frame
    if (clip.is_picture) return;
    this.loading = setTimeout(() => this.begin(clip), 80); // skips clips that are only scrolled past
  }

  begin(clip) {
    this.video.src = address("/video", clip.id);
    if (this.plays) this.video.play().catch(() => {});
    this.plays = false;
  }

  /** A lost connection is retried; a file that the browser cannot decode is not. */
  failed() {
    const isUnknown = !this.video.canPlayType(this.clip.type);
    if (!isUnknown && this.tries++ < 3 && this.video.error?.code !== MediaError.MEDIA_ERR_DECODE) {
      const { clip } = this;
      this.loading = setTimeout(() => this.begin(clip), 500);
      return;
    }
    this.screen.replaceChildren(make("p", { class: "nothing" },
        isUnknown ? cannotPlay(this.clip) : "The browser cannot play this file."));
  }

  /** While the next video is loading, its length is not known, nor are times in it. */
  seek(time) {
    if (Number.isFinite(time)) this.video.currentTime = time;
  }

  /** The part of the file that shards contain. */
  range() {
    const [start, end] = this.whole(), { trim, fps } = this.clip;
    return trim && fps ? [start + trim[0] / fps, Math.min(start + trim[1] / fps, end)] : [start, end];
  }

  /** The number of the frame that is shown, in the clip. */
  frame() {
    return Math.floor((this.video.currentTime - this.whole()[0]) * (this.clip?.fps || 24) + 1e-3);
  }

  /** The clip's part of the file. */
  whole() {
    const { clip, video } = this;
    return clip.media === "video" && clip.video ? [clip.start_s ?? 0, clip.end_s ?? video.duration]
        : [0, video.duration];
  }

  toStart() {
    const [start] = this.range();
    if (start > 0) this.seek(start + 1e-3); // rounding never shows the frame before
  }

  /** While it plays: an end within the file is met to the frame. */
  watch() {
    this.atEnd();
    if (!this.video.paused) requestAnimationFrame(() => this.watch());
  }

  /** At the end of a part of the file that plays: its last frame stays. */
  atEnd() {
    const { clip, video } = this, isPart = clip?.media === "video" || clip?.trim, end = isPart && this.range()[1];
    if (!isPart || video.paused || video.currentTime < end) return;
    video.pause();
    this.seek(end - 0.5 / (clip.fps || 24));
  }

  toggle() {
    const { video } = this;
    if (!video.hasAttribute("src") || this.clip?.id !== this.wanted) {
      this.plays = !this.plays;
      return;
    }
    const [start, end] = this.range();
    if (!video.paused) return video.pause();
    if (video.currentTime >= end - 1 / (this.clip.fps || 24)) this.seek(start);
    video.play().catch(() => {});
  }

  /** Seeks to the middle of the frame `frames` frames further on, so that rounding never shows its neighbour. */
  step(frames) {
    const { video } = this, fps = this.clip?.fps || 24;
    if (!video.hasAttribute("src") || this.clip?.id !== this.wanted) return;
    video.pause();
    const [start, end] = this.whole(), frame = this.frame() + frames;
    this.seek(Math.min(Math.max(start + (frame + 0.5) / fps, start), end));
  }

  playerKey(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) this.step(step);
    else if (event.key === " ") this.toggle();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

function cannotPlay(clip) {
  const browser = clip.is_video ? "This browser" : "The clip was not stored, and this browser";
  return `${browser} cannot play ${clip.ending || "such"} videos.`;
}

/** An input of which nothing could be read: it has neither pictures to play nor anything to decide about. */
const isUnreadable = (clip) => clip.is_video && clip.end === "failed" && !clip.damaged && !clip.acceptable;

function nothingToPlay(clip) {
  if (clip.end === "failed") return "The file could not be read, so there is nothing to play.";
  if (clip.ending) return cannotPlay(clip);
  if (clip.at_work)
    return "The clip was not stored. It plays from its source video once the job has finished that video.";
  return "The clip was not stored, and its source video was not found.";
}

/** The option that makes the job keep the clip. */
function remedy({ reason, stage }) {
  const of = stage ? `of ${stage} ` : "";
  if (reason === "clip.too-short") return `lower min_length ${of}in the run file`;
  if (reason === "clip.too-few-frames") return `lower min_frames ${of}in the run file`;
  if (reason === "clip.no-bin") return `set bins ${of}to "record" in the run file`;
  if (reason === "ingest.duplicate") return 'set duplicates = "keep" in the curate job';
  return `loosen ${stage || reason} or set its mode to "score"`;
}

/** "Black frames (filter.black): 100 %, at most 33 % is kept."; for a rule without a bound "video.clips filtered it by
 * rule clip.too-short with score 0.5." */
function filtered({ reason, stage, score, facts, copy_of: original }) {
  if (reason === "ingest.duplicate") return `The file of ${original} again: its bytes are the same.`;
  const [[name, value] = []] = Object.entries(facts?.bounds?.[reason] ?? {}), field = `scores.${reason}`;
  const rule = stage && stage !== reason ? `${reason} of ${stage}` : reason;
  if (name) {
    const kept = boundText(field, { is_most: name === "at_most", value });
    return `${titleOf(field)} (${rule}): ${textOf(field, score)}, ${kept} is kept.`;
  }
  const byRule = stage === reason ? "" : ` by rule ${reason}`;
  return `${stage || reason} filtered it${byRule}${score === undefined ? "" : ` with score ${number(score)}`}.`;
}

/** "Left out by good: blur >= 20 does not hold." */
function leftOut(job, rule) {
  const why = { count: "it has chosen its count of clips without it", "studio.reject": "it was rejected" }[rule];
  return `Left out by ${job}: ${why ?? `${rule} does not hold`}.`;
}

/** Why the clip is a copy, and whether shards contain it. */
function copied(clip) {
  const inShards = clip.decision === "accepted" ? "Shards contain it all the same, since it is accepted."
      : "Shards made after that dedup job leave it out, unless it is accepted.";
  return `A ${clip.copy_why ?? `copy of ${clip.copy_of}: rule ${clip.reason}`}. ${inShards}`;
}

/** Says what an accepted clip needs so that a shard job can pack it. */
function toStore(clip) {
  if (clip.end !== "filtered")
    return "Your decision is saved, but nothing of this clip is stored; " +
        "repair or replace its video, and run the curate job again.";
  return "Your decision is saved, but a shard job packs only stored clips. " +
      `To get this clip, ${remedy(clip)}, and run the curate job again.`;
}

/** Messages about a clip that was not kept, and about the effect of a decision. */
function notes(clip) {
  const out = [];
  if (clip.end === "copy") out.push(copied(clip));
  else if (clip.copy_of && clip.reason !== "ingest.duplicate") out.push(`A copy of ${clip.copy_of}.`);
  if (clip.end === "filtered") out.push(filtered(clip));
  for (const { job, rule } of clip.left_out ?? []) out.push(leftOut(job, rule));
  if (clip.end === "unchosen" && clip.decision === "accepted")
    out.push("Your decision is saved: the run keeps an accepted clip when it runs again, " +
        "unless its condition names set.");
  if (clip.end === "failed") out.push(`${clip.stage || "The job"} failed: ${clip.reason}`);
  if (clip.damaged) out.push(`Damaged: ${clip.damaged}`);
  if (clip.decision === "rejected") out.push(clip.reason_now ? `Rejected: ${clip.reason_now}` : "Rejected.");
  if (clip.decision === "rejected" && clip.copies.length) out.push(replacedBy(clip));
  if (clip.decision === "accepted" && !clip.stored) out.push(toStore(clip));
  return out.map((text) => make("p", { class: `note ${clip.end}` }, text));
}

function tables(clip) {
  const list = (entries) => make("dl", { class: "facts" },
      entries.flatMap(([title, text, name]) => [make("dt", { title: name ? whereName(name) : title }, title),
      make("dd", {}, text)]));
  const history = make("ol", { class: "history" }, clip.history.toReversed().map((edit) => make("li", {}, told(edit))));
  const groups = factGroups(clip.facts ?? {}, clip.reason);
  const textOfAny = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value));
  const all = [...flat(clip.facts ?? {})].map(([name, value]) => [name, textOfAny(value)]);
  return [
    clip.history.length ? make("div", {}, make("h3", {}, "Edits"), history) : null,
    ...groups.map(([title, entries]) => make("div", {}, make("h3", {}, title), list(entries))),
    clip.url ? make("div", {}, make("h3", {}, "Source"), make("p", { class: "path" }, clip.url)) : null,
    all.length ? make("details", { "aria-label": "All facts as stored" }, make("summary", {}, "All facts as stored"),
        list(all)) : null,
  ].filter(Boolean);
}

function told(edit) {
  const step = edit.step ? `${edit.step}: ` : "";
  return `${step}${said(edit.set)} (${edit.author}, ${new Date(edit.time).toLocaleString()})`;
}
