// The timeline of shots: a bar whose borders can be dragged, and a row for each shot.
import { make, styled } from "./elements.js";
import { counted, duration } from "./words.js";

const kNew = 4; // seconds
const kStep = { seconds: 0.25, chunks: 1 }; // of a border that is moved, and the shortest shot
const kSwitches = { none: "Earlier frames stay as they are", recache: "Read earlier frames again with this prompt",
    blend: "Go over to this prompt slowly", flush: "Forget all but the first and the last frames" };

/** A shot that another program asked for may have its length in chunks. */
const unitOf = (shot) => (shot.chunks ? "chunks" : "seconds");
const lengthOf = (shot) => shot[unitOf(shot)];
const told = (shot) => (shot.chunks ? counted(shot.chunks, "chunk") : duration(shot.seconds));

export class Shots {
  /** As the server takes them. */
  value = [];
  #measures = []; // functions that show the lengths of shots

  constructor(bar, rows, about) {
    Object.assign(this, { bar, rows, about });
  }

  set(shots) {
    this.value = shots.map((shot) => ({ ...shot }));
    this.#draw();
  }

  add(prompt = "") {
    this.value.push({ prompt, seconds: this.value.at(-1)?.seconds ?? kNew, cut: true, switch: "none" });
    this.#draw();
  }

  /** Moves the focus to the prompt of a shot. */
  focus(at) {
    this.rows.children[at].querySelector("textarea").focus();
  }

  #remove(shot) {
    const at = this.value.indexOf(shot);
    this.value.splice(at, 1);
    this.#draw();
    this.focus(Math.min(at, this.value.length - 1));
  }

  #draw() {
    this.#measures = [];
    this.rows.replaceChildren(...this.value.map((shot, i) => this.#row(shot, i)));
    this.bar.replaceChildren(...this.value.flatMap((shot, i) => [this.#border(i), this.#segment(shot, i)]).slice(1));
    this.#measure();
  }

  #measure() {
    for (const measure of this.#measures) measure();
    const total = this.value.reduce((sum, shot) => sum + (shot.seconds ?? NaN), 0);
    this.about.textContent = counted(this.value.length, "shot") + (total > 0 ? `, ${duration(total)}` : "");
  }

  #segment(shot, i) {
    const out = make("button", { type: "button", class: "segment", onclick: () => this.focus(i) });
    this.#measures.push(() => {
      out.textContent = String(i + 1);
      out.setAttribute("aria-label", `Shot ${i + 1}, ${told(shot)}`);
      out.title = told(shot);
      styled(out, { "flex-grow": String(Math.max(lengthOf(shot) || 0, kStep[unitOf(shot)])) });
    });
    return out;
  }

  /** Between shots i - 1 and i: dragged, or moved by the arrows, one becomes longer and the other shorter. */
  #border(i) {
    const [before, after] = [this.value[i - 1], this.value[i]];
    if (!before || unitOf(before) !== unitOf(after)) return make("span", { class: "border" });
    const unit = unitOf(before), step = kStep[unit], all = () => before[unit] + after[unit];
    const move = (length) => {
      const rounded = Math.min(Math.max(Math.round(length / step) * step, step), all() - step);
      if (rounded < step) return; // both together are shorter than two of the shortest
      [before[unit], after[unit]] = [rounded, Math.round((all() - rounded) * 1e6) / 1e6];
      this.#measure();
    };
    const out = make("div", { class: "border", role: "slider", tabIndex: 0, "aria-orientation": "horizontal",
        "aria-label": `Border between shots ${i} and ${i + 1}`, "aria-valuemin": step });
    out.addEventListener("keydown", (event) => {
      const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
      if (!steps) return;
      event.preventDefault();
      move(before[unit] + steps * (event.shiftKey ? 4 : 1) * step);
    });
    out.addEventListener("pointerdown", (event) => {
      const from = before[unit], width = out.nextSibling.offsetWidth + out.previousSibling.offsetWidth;
      const drag = ({ clientX }) => move(from + (clientX - event.clientX) / width * all());
      out.setPointerCapture(event.pointerId);
      out.addEventListener("pointermove", drag);
      out.addEventListener("lostpointercapture", () => out.removeEventListener("pointermove", drag), { once: true });
    });
    this.#measures.push(() => {
      out.setAttribute("aria-valuenow", before[unit]);
      out.setAttribute("aria-valuemax", all() - step);
      out.setAttribute("aria-valuetext", `shot ${i}: ${told(before)}, shot ${i + 1}: ${told(after)}`);
    });
    return out;
  }

  #row(shot, i) {
    const unit = unitOf(shot), name = `shot ${i + 1}`;
    const length = make("input", { type: "number", min: kStep[unit], step: "any", required: true,
        "aria-label": `Length of ${name} in ${unit}`,
        oninput: () => { shot[unit] = Number(length.value); this.#measure(); } });
    this.#measures.push(() => {
      if (document.activeElement !== length) length.value = lengthOf(shot);
    });
    const change = make("select", { "aria-label": `Switch to ${name}`, onchange: () => (shot.switch = change.value) },
        ...Object.entries(kSwitches).map(([value, label]) => make("option", { value }, label)));
    change.value = shot.switch ?? "none";
    const cut = make("input", { type: "checkbox", checked: shot.cut ?? true,
        onchange: () => (shot.cut = cut.checked) });
    return make("li", {},
        make("textarea", { rows: 2, value: shot.prompt, "aria-label": `Prompt of ${name}`,
            oninput: (event) => (shot.prompt = event.target.value) }),
        make("div", { class: "row" }, length, unit === "seconds" ? "s" : unit,
            ...(i ? [make("label", {}, cut, " Cut"), change] : []),
            make("button", { type: "button", disabled: this.value.length === 1, "aria-label": `Remove ${name}`,
                onclick: () => this.#remove(shot) }, "Remove")));
  }
}
