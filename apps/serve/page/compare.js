// Two videos side by side, with their settings, of which those that differ are marked.
import { contentOf } from "./api.js";
import { make } from "./elements.js";
import { settingsOf, titleOf } from "./settings.js";

export class Compare {
  constructor(dialog) {
    Object.assign(this, { dialog, pair: dialog.querySelector("#pair"), facts: dialog.querySelector("#pair-facts") });
    dialog.addEventListener("close", () => this.pair.replaceChildren()); // stops both
    dialog.addEventListener("keydown", (event) => {
      if (event.key !== " " || event.target.closest("button, video")) return;
      event.preventDefault();
      const both = [...this.pair.querySelectorAll("video")], isPlaying = both.some((video) => !video.paused);
      for (const video of both) isPlaying ? video.pause() : video.play().catch(() => {});
    });
  }

  open(first, second) {
    this.pair.replaceChildren(...[first, second].map((video) => make("figure", {},
        make("video", { src: contentOf(video.id), muted: true, loop: true, autoplay: true, playsInline: true,
            controls: true, "aria-label": titleOf(video) }),
        make("figcaption", {}, titleOf(video)))));
    const [one, other] = [first, second].map((video) => new Map(settingsOf(video)));
    const names = new Set([...one.keys(), ...other.keys()]);
    const cell = (text) => make("td", {}, text ?? "");
    this.facts.replaceChildren(...[...names].map((name) => make("tr",
        { class: one.get(name) === other.get(name) ? null : "differs" },
        make("th", { scope: "row" }, name), cell(one.get(name)), cell(other.get(name)))));
    this.dialog.showModal();
  }
}
