// The queue and the history: a card for each video. A card stays the same element while its video is made.
import { contentOf, onlyReads } from "./api.js";
import { make } from "./elements.js";
import { isOver, settingsOf, titleOf } from "./settings.js";

const kUnnamed = new Set(["Model", "Size", "Length"]); // settings that need no name

// Loads the first picture of a video when it can be seen.
const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    target.preload = "metadata";
    seen.unobserve(target);
  }
});

function about(video) {
  return settingsOf(video).map(([name, text]) => (kUnnamed.has(name) ? text : `${name.toLowerCase()} ${text}`))
      .join(", ");
}

/** before: number of videos of the same model that are made before it. */
function stateOf(video, before) {
  if (video.status === "failed") return `Failed: ${video.error?.message ?? "without a reason"}`;
  if (video.status === "completed")
    return video.expires_at ? `Kept until ${new Date(1000 * video.expires_at).toLocaleString("en-GB")}` : "";
  if (video.status === "in_progress") return `${video.progress} %`;
  return before ? `Waits, ${before} before it` : "Waits, next";
}

export class Cards {
  #cards = new Map(); // id -> { element, video, update }

  /** actions: show, reuse, proceed, compare and remove, each called with a video; isCompared(id). */
  constructor(queue, history, actions) {
    Object.assign(this, { queue, history, actions });
    for (const list of [queue, history]) list.addEventListener("keydown", (event) => this.#key(event));
  }

  /** videos: the newest first. shown: the id of the one that the player shows. */
  show(videos, shown) {
    const ids = new Set(videos.map(({ id }) => id));
    for (const id of this.#cards.keys()) if (!ids.has(id)) this.#cards.delete(id);
    const queued = videos.filter((video) => !isOver(video)).reverse();
    const before = (video) => queued.filter(({ model }) => model === video.model).indexOf(video);
    const elements = (some) => some.map((video) => this.#card(video, before(video), shown));
    const { activeElement: focused } = document, id = focused?.closest(".card")?.dataset.id;
    place(this.queue, elements(queued));
    place(this.history, elements(videos.filter(isOver)));
    if (id && document.activeElement !== focused)
      document.querySelector(`.card[data-id="${CSS.escape(id)}"] .title`)?.focus();
  }

  #card(video, before, shown) {
    const known = this.#cards.get(video.id);
    const card = known?.status === video.status ? known : this.#make(video);
    this.#cards.set(video.id, card);
    card.update(video, before);
    card.element.classList.toggle("shown", video.id === shown);
    card.compare?.setAttribute("aria-pressed", this.actions.isCompared(video.id));
    return card.element;
  }

  #make(video) {
    const title = titleOf(video), { actions } = this;
    const state = make("p", { class: `state ${video.status}` });
    const bar = isOver(video) ? null : make("progress", { max: 100, "aria-label": `Progress of ${title}` });
    const button = (label, run) => make("button",
        { type: "button", "aria-label": `${label}: ${title}`, onclick: () => run(video) }, label);
    const isDone = video.status === "completed", compare = isDone ? button("Compare", actions.compare) : null;
    const picture = isDone ? make("video", { src: contentOf(video.id), preload: "none", muted: true, playsInline: true,
        tabIndex: -1, "aria-hidden": "true", onclick: () => actions.show(video) }) : null;
    if (picture) seen.observe(picture);
    const changing = (label, run) => (onlyReads() ? null : button(label, run));
    const buttons = [changing("Reuse", actions.reuse), isDone ? changing("Continue", actions.proceed) : null, compare,
        isDone ? make("a", { href: contentOf(video.id), download: `${video.id}.mp4`, "aria-label": `Save: ${title}` },
            "Save") : null,
        changing(isOver(video) ? "Delete" : "Cancel", actions.remove)];
    const element = make("li", { class: "card", "data-id": video.id }, picture,
        make("div", {}, make("button", { type: "button", class: "title", onclick: () => actions.show(video) }, title),
            state, bar, make("p", { class: "facts" }, about(video)), make("div", { class: "row" }, buttons)));
    const update = (now, before) => {
      const text = stateOf(now, before);
      if (state.textContent !== text) state.textContent = text;
      if (bar) bar.value = now.progress;
    };
    return { element, status: video.status, update, compare };
  }

  /** The arrows move between the titles. */
  #key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const titles = [...document.querySelectorAll(".card .title")];
    const at = titles.indexOf(event.target.closest(".card").querySelector(".title"));
    titles[Math.min(Math.max(at + step, 0), titles.length - 1)].focus();
  }
}

/** Makes these the children of a list, and moves none that is in its place: a moved element loses the focus. */
function place(list, elements) {
  const wanted = new Set(elements);
  for (const child of [...list.children]) if (!wanted.has(child)) child.remove();
  elements.forEach((element, i) => {
    if (list.children[i] !== element) list.insertBefore(element, list.children[i] ?? null);
  });
}
