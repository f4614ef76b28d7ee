// The shots of the selected clip's video, to scale; selecting a shot selects its clip.
import { get } from "./api.js";
import { drawing, percent, scoreLine } from "./charts.js";
import { make, styled } from "./elements.js";
import { legend, seconds } from "./format.js";

const kNarrowest = 5; // pixels per shot

export class Timeline {
  /** choose(id); go(step): to the next or previous shot. */
  constructor(choose, go) {
    this.choose = choose;
    this.go = go;
    this.element = make("div",
        { class: "strip", role: "listbox", tabIndex: 0, "aria-label": "Shots of the video",
        "aria-orientation": "horizontal", onkeydown: (event) => this.key(event) });
    this.element.addEventListener("click", (event) => {
      const shot = this.shots?.[event.target.closest(".shot")?.index];
      if (shot) this.open(shot);
    });
    this.legend = make("div", { class: "below" });
  }

  /** version: of the studio's state; the same video at the same version is not loaded again. */
  async show(id, key, version) {
    const stamp = `${key} ${version}`;
    if (this.stamp !== stamp) {
      const turn = (this.turn = Symbol());
      const data = await get("/api/shots", { id });
      if (turn !== this.turn) return data.shots.length; // a later request has replaced this one
      this.stamp = stamp;
      this.draw(data);
    }
    this.turn = null;
    this.mark(id);
    return this.shots.length;
  }

  /** The first clip of the next or previous shot that has one; if there is none, the clip itself. */
  async beside(id, step) {
    const has = (shot) => shot.clips.some((clip) => clip.id === id);
    const shots = id === this.marked || this.shots?.some(has) ? this.shots : (await get("/api/shots", { id })).shots;
    for (let at = shots.findIndex(has) + step; at >= 0 && at < shots.length; at += step) if (shots[at].clips.length)
      return shots[at].clips[0].id;
    return id;
  }

  draw(data) {
    const length = data.length_s || 1;
    this.shots = data.shots;
    const inner = styled(make("div", { role: "presentation" }), { "min-width": `${data.shots.length * kNarrowest}px` });
    // the detector's score over time
    inner.append(drawing(1000, 100, 0, scoreLine(data.curve, Math.max(...data.curve, 1e-9), 1000, 100)));
    this.options = data.shots.map((shot, index) => {
      const first = shot.clips[0], mark = first ? first.decision || first.end : "";
      const what = shot.clips.length > 1 ? `${shot.clips.length} clips` : mark || "no clip";
      const text = `Shot ${index + 1}, ${seconds(shot.start_s)} to ${seconds(shot.end_s)}: ${what}`;
      const option = make("div",
          { class: `shot ${mark}`, role: "option", id: `shot-${index}`, "aria-label": text, title: text,
          "aria-selected": "false" });
      const share = (shot.end_s - shot.start_s) / length;
      if (share > 0.06) option.textContent = index + 1;
      option.index = index;
      return styled(option, { left: percent(shot.start_s / length), width: percent(share) });
    });
    inner.append(...this.options);
    this.element.replaceChildren(inner);
    const marks = new Set(data.shots.map(({ clips: [first] }) => (first ? first.decision || first.end : "no clip")));
    this.legend.replaceChildren(legend(marks),
        ...(data.curve.length
        ? [make("p", { class: "muted" }, "Line: how much the picture changes, as the shot detector sees it")] : []));
  }

  mark(id) {
    this.marked = id;
    this.at = this.shots.findIndex((shot) => shot.clips.some((clip) => clip.id === id));
    this.options.forEach((option, index) => option.setAttribute("aria-selected", index === this.at));
    this.element.removeAttribute("aria-activedescendant");
    if (this.at < 0) return;
    this.element.setAttribute("aria-activedescendant", `shot-${this.at}`);
    const option = this.options[this.at];
    const left = option.offsetLeft - this.element.clientWidth / 2;
    if (option.offsetLeft < this.element.scrollLeft
        || option.offsetLeft + option.offsetWidth > this.element.scrollLeft + this.element.clientWidth)
        this.element.scrollLeft = left;
  }

  open(shot) {
    if (shot.clips.length) this.choose(shot.clips[0].id);
  }

  key(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    this.go(step);
  }
}
