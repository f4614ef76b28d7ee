// Plays the clip under the pointer, without sound, after a moment's rest. Not where people ask for less motion.
import { address, get } from "./api.js";
import { make } from "./elements.js";

const kRest = 250; // milliseconds

export class Hover {
  constructor(list) {
    this.video = make("video",
        { muted: true, loop: false, playsInline: true, preload: "auto", tabIndex: -1, "aria-hidden": "true" });
    this.video.addEventListener("playing", () => this.video.classList.add("plays"));
    this.video.addEventListener("timeupdate",
        () => this.range && this.video.currentTime >= this.range[1] && this.restart());
    this.video.addEventListener("ended", () => this.restart());
    list.addEventListener("pointerover",
        (event) => event.pointerType === "mouse" && this.over(event.target.closest(".cell")));
    list.addEventListener("pointerleave", () => this.over(null));
  }

  over(cell) {
    if (cell === this.cell) return;
    this.stop();
    this.cell = cell;
    if (!cell || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    // without a picture that moves, the still one stays
    this.soon = setTimeout(() => this.play(cell, cell.row).catch(() => {}), kRest);
  }

  async play(cell, row) {
    if (!row || row.is_picture) return;
    const clip = await get("/api/clip", { id: row.id });
    if (cell !== this.cell || cell.row?.id !== row.id || !clip.media) return;
    this.range = clip.media === "video" && clip.video ? [clip.start_s ?? 0, clip.end_s ?? Infinity] : null;
    this.video.src = address("/video", row.id) + (this.range ? `#t=${this.range[0]}` : "");
    cell.canvas.after(this.video);
    await this.video.play();
  }

  restart() {
    this.video.currentTime = this.range?.[0] ?? 0;
    this.video.play().catch(() => {});
  }

  /** The cell shows another clip, or none: also if the pointer has not moved. */
  left(cell) {
    if (cell === this.cell) this.over(null);
  }

  stop() {
    clearTimeout(this.soon);
    this.cell = null;
    if (!this.video.isConnected) return;
    this.video.pause();
    this.video.removeAttribute("src");
    this.video.load(); // ends its request
    this.video.classList.remove("plays");
    this.video.remove();
  }
}
