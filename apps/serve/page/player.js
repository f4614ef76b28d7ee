// Shows one video: a finished one from its file, one that is being made while it grows.
import { addressOf, contentOf, driftOf, get } from "./api.js";
import { driftCharts } from "./drift.js";
import { canPlay, Growing, until } from "./growing.js";
import { parts, typeOf } from "./mp4.js";
import { titleOf } from "./settings.js";
import { duration } from "./words.js";

const kAgain = 1000; // milliseconds between looks whether a video is finished

export class Player {
  id = ""; // of the video that is shown
  isLive = false; // it is not finished
  #turn = new AbortController(); // of what is shown now
  #growing = null;
  #isWaiting = false; // for the end, since the browser cannot show it before

  /** drift: a <details> with a place for charts. */
  constructor(element, said, title, drift) {
    Object.assign(this, { element, said, title, drift });
    element.addEventListener("play", () => this.#growing?.follow());
  }

  clear() {
    this.#turn.abort();
    this.#turn = new AbortController();
    Object.assign(this, { id: "", isLive: false });
    this.#growing = null;
    this.element.removeAttribute("src");
    this.element.load();
    this.title.textContent = "Nothing is shown";
    this.said.textContent = "";
    this.drift.hidden = true;
  }

  async show(video) {
    this.clear();
    const { signal } = this.#turn;
    Object.assign(this, { id: video.id, isLive: video.status !== "completed" });
    this.title.textContent = titleOf(video);
    try {
      await this.#watch(video.id, signal);
    } catch (error) {
      if (signal.aborted) return;
      this.isLive = false;
      this.said.textContent = error.message;
    }
  }

  /** Says how far the shown video is. video: its newest state. */
  tell(video) {
    if (video.id !== this.id || !this.isLive) return;
    const grown = this.#growing?.end;
    const state = video.status === "queued" ? "It waits in the queue." : `${video.progress} % are done.`;
    this.said.textContent = grown ? `Live: ${duration(grown)} so far. ${state}`
        : this.#isWaiting ? `${state} This browser shows it when it is finished.` : state;
  }

  async #watch(id, signal) {
    this.#isWaiting = false;
    for (;;) {
      const video = await get(addressOf(id), signal);
      signal.throwIfAborted();
      if (video.status === "completed") return this.#finish(video, signal);
      if (video.status === "failed") throw new Error(video.error?.message ?? "the video failed");
      this.tell(video);
      if (!this.#isWaiting) this.#isWaiting = !(await this.#grow(id, signal));
      await until((done) => setTimeout(done, kAgain), signal);
    }
  }

  /** Shows the video while it is made, up to its end, or to the end of the connection: its state says what comes next.
   * False: the browser cannot show it before it is finished. */
  async #grow(id, signal) {
    this.#growing = null;
    const response = await fetch(`${contentOf(id)}?live=1`, { signal }).catch(() => null);
    signal.throwIfAborted();
    if (!response?.ok) return true;
    const all = parts(response.body);
    try {
      for (let part = await next(all); part; part = await next(all)) {
        if (!this.#growing) {
          const type = typeOf(part);
          if (!canPlay(type)) return false;
          this.#growing = await Growing.open(this.element, type, signal);
          this.#play();
        }
        await this.#growing.add(part);
      }
      return true;
    } catch {
      signal.throwIfAborted();
      this.#growing = null;
      return false;
    } finally {
      all.return();
    }
  }

  async #finish(video, signal) {
    const { currentTime, paused } = this.element, wasGrowing = Boolean(this.#growing);
    this.#growing = null;
    this.isLive = false;
    this.element.src = contentOf(video.id);
    if (wasGrowing) this.element.currentTime = currentTime;
    if (!wasGrowing || !paused) this.#play();
    this.said.textContent = "";
    const charts = driftCharts(await driftOf(video, signal));
    signal.throwIfAborted();
    this.drift.hidden = !charts.length;
    this.drift.querySelector("#charts").replaceChildren(...charts);
  }

  #play() {
    this.element.play().catch(() => {}); // a browser may want a click first, or the next video is shown already
  }
}

/** The next part of a stream, null at its end; the connection may end early too. */
const next = (all) => all.next().then(({ done, value }) => (done ? null : value), () => null);
