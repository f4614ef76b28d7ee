// The bounds of a histogram: lines where the job's stages filter, which can be moved to see what would change.
import { get } from "./api.js";
import { percent } from "./charts.js";
import { copyText } from "./clipboard.js";
import { make, styled } from "./elements.js";
import { plural } from "./format.js";
import { boundText, titleOf } from "./names.js";
import { scaleOf } from "./scale.js";

const kStep = 0.01; // of the histogram's width, for a key; ten times that with Shift

export class Bounds {
  /** say(text), failed(error). */
  constructor({ say, failed }) {
    Object.assign(this, { say, failed, moved: new Map() }); // "field side" -> where the user has moved it
  }

  /** h: from /api/histograms. Returns [lines over the bars, what they say]. */
  of(h) {
    const jobs = [...new Set(h.bounds.map(({ select }) => select))];
    const sides = jobs.flatMap((select) => [false,
        true].map((isMost) =>
        h.bounds.filter((bound) => bound.select === select && bound.is_most === isMost))).filter(([first]) =>
        first && !neverFilters(first, h));
    const parts = sides.map((bounds) => this.side(h, bounds));
    return [parts.map(([line]) => line), parts.map(([, about]) => about)];
  }

  /** The bounds of one side that move together: those of stages, one of each job that has one, or that of a select job.
   * */
  side(h, bounds) {
    const [{ select }] = bounds, name = nameOf(h.field, bounds[0]), own = bounds[0].value;
    const scale = scaleOf(h);
    const clamp = (value) => Math.min(Math.max(value, Math.min(h.low, own)), Math.max(h.high, own));
    const about = make("p", { class: "bound", role: "status" });
    const line = make("button",
        { type: "button", role: "slider", class: "line",
        "aria-label": `Bound of ${titleOf(h.field)}${select && ` in ${select}`}`, "aria-valuemin": Math.min(h.low, own),
        "aria-valuemax": Math.max(h.high, own), "data-bar": name });
    const draw = () => {
      const value = this.moved.get(name) ?? own, share = scale.at(value);
      styled(line, { left: percent(Math.min(Math.max(share, 0), 1)) });
      line.classList.toggle("beyond", share < 0 || share > 1);
      line.title = `${boundText(h.field, { ...bounds[0], value })}${select && ` in ${select}`}`;
      line.setAttribute("aria-valuenow", value);
      line.setAttribute("aria-valuetext", line.title);
      if (this.moved.has(name)) return;
      const inJob = (bound) => (select || bounds.length > 1 ? ` in ${bound.job}` : "");
      about.replaceChildren(`${bounds.map((bound) => boundText(h.field, bound) + inJob(bound)).join(", ")} is kept`);
    };
    const move = (value) => {
      const rounded = Number(clamp(value).toPrecision(3));
      if (rounded === Number(own.toPrecision(3))) this.moved.delete(name);
      else this.moved.set(name, rounded);
      draw();
      clearTimeout(line.soon);
      if (this.moved.has(name))
        line.soon = setTimeout(() => this.tell(h, bounds, rounded, about, () => move(own)).catch(this.failed), 100);
    };
    this.listen(line, scale, () => this.moved.get(name) ?? own, move);
    draw();
    if (this.moved.has(name)) this.tell(h, bounds, this.moved.get(name), about, () => move(own)).catch(this.failed);
    return [line, about];
  }

  listen(line, scale, now, move) {
    line.addEventListener("pointerdown", (event) => line.setPointerCapture(event.pointerId));
    line.addEventListener("pointermove", (event) => {
      if (!line.hasPointerCapture(event.pointerId)) return;
      const box = line.parentElement.getBoundingClientRect();
      move(scale.value((event.clientX - box.left) / box.width));
    });
    line.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      event.stopPropagation();
      move(scale.value(Math.min(Math.max(scale.at(now()), 0), 1) + step * kStep * (event.shiftKey ? 10 : 1)));
    });
  }

  /** Says what the moved bound would change, and how to make it so. */
  async tell(h, bounds, value, about, back) {
    const [bound] = bounds, turn = (about.turn = Symbol());
    const { gone, back: returning, where } = await get("/api/bound",
        { field: h.field, side: bound.is_most ? "most" : "least", select: bound.select, value });
    if (turn !== about.turn || !this.moved.has(nameOf(h.field, bound))) return;
    const before = boundText(h.field, bound).split(" ").slice(2).join(" "); // the value without "at least"
    const lines = [`${boundText(h.field, { ...bound, value })} instead of ${before}: ${change(gone, returning)}`];
    if (bound.select && where) lines.push(`For this, write ${where} in the where of ${bound.select} and run it again.`);
    else if (returning)
      lines.push(`To get clips back, set ${bound.option} = ${value} of ${bound.stage} in the run file ` +
          "and run the job again.");
    const copy = where && make("button", { type: "button", title: where, onclick: () => this.copy(where) },
        "Copy as a condition");
    about.replaceChildren(...lines.map((text) => make("span", {}, text)),
        make("span", { class: "row" }, ...(copy && (gone || bound.select) ? [copy] : []),
        make("button", { type: "button", onclick: back }, "Back")));
  }

  /** For a select job. */
  copy(where) {
    return copyText(`where = ${JSON.stringify(where)}`, this.say);
  }
}

const nameOf = (field, { is_most: isMost, select }) => `${field} ${isMost ? "most" : "least"} ${select}`;

const neverFilters = (bound, h) => !bound.is_most && !bound.is_strict && bound.value <= 0 && h.low >= 0;

function change(gone, back) {
  const parts = [...(gone ? [`${plural(gone, "more clip")} would go`] : []),
      ...(back ? [`${plural(back, "clip")} would come back`] : [])];
  return parts.length ? parts.join(", ") : "no clip would change";
}
