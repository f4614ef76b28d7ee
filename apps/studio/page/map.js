// A map of the clips by their embeddings, coloured by a fact. A loop drawn around clips selects them; arrows go from
// clip to clip.
import { get } from "./api.js";
import { make } from "./elements.js";
import { endName, keyOf, number } from "./format.js";
import { menuGroups, textOf, titleOf } from "./names.js";

const kNear = 12; // pixels between the pointer and the clip that it means
const kEdge = 16; // pixels around the points
const kKinds = 8; // colours of texts; rarer ones share the last
const kKindColours = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b5a400", "#888888"];
const kRamp = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]]; // viridis, dark to light
const kOutcomes = ["kept", "filtered", "failed", "copy", "unchosen", "accepted", "rejected"];

export class ClipMap {
  /** page: {query, fields(): names of numbers, choose(id), lasso(ids, isMore), selected(): the id of the focused clip,
   * checked: a Set of ids, failed}. */
  constructor(element, page) {
    Object.assign(this, { element, page, isOpen: false });
    this.canvas = make("canvas", { tabIndex: 0, role: "img", "aria-describedby": "map-help" });
    this.colour = make("select", { "aria-label": "Colour", onchange: () => this.show().catch(page.failed) });
    this.of = make("select",
        { "aria-label": "Embedding", hidden: true, onchange: () => this.show().catch(page.failed) });
    this.about = make("span", { class: "muted" });
    this.legend = make("ul", { class: "legend", "aria-label": "Colours of the map" });
    this.reading = make("b", { class: "reading", hidden: true });
    this.offer([]);
    const help = make("p", { id: "map-help", class: "muted" },
        "Near clips look alike. Draw around clips to select them, with Shift to add; arrows go to the next clip.");
    element.append(make("div", { class: "row" }, make("label", {}, "Colour ", this.colour), this.of, this.about),
        this.legend, make("div", { class: "plane" }, this.canvas, this.reading), help);
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  /** Requests the places and colours of the view's clips. */
  async show() {
    if (!this.isOpen) return;
    this.asking?.abort();
    const { signal } = (this.asking = new AbortController());
    this.about.textContent = "Reading the embeddings…";
    try {
      const data = await get("/api/map", this.page.query.parameters({ of: this.of.value, colour: this.colour.value }),
          signal);
      signal.throwIfAborted();
      this.data = data;
    } catch (error) {
      if (error.name === "AbortError") return;
      this.data = null;
      this.about.textContent = `No map: ${error.message}`;
    }
    this.tell();
    this.draw();
  }

  /** Fills the menu of facts that the map can be coloured by. */
  offer(fields) {
    const names = [...fields, ...(this.data?.texts ?? [])].filter((name) => name !== "film" && name !== "sha256"),
    text = names.join();
    if (text === this.offered) return;
    this.offered = text;
    const { value } = this.colour, option = (field) => make("option", { value: field }, titleOf(field));
    this.colour.replaceChildren(make("option", { value: "" }, "outcome"),
        make("option", { value: "film" }, "source video"),
        ...menuGroups(names).map(([label, all]) => make("optgroup", { label }, all.map(option))));
    this.colour.value = value;
  }

  tell() {
    const { data } = this;
    if (!data) return this.legend.replaceChildren();
    this.offer(this.page.fields());
    const n = data.ids.length, isOne = data.names.length < 2;
    this.about.textContent = n < data.all
        ? `${n.toLocaleString("en")} of ${data.all.toLocaleString("en")} clips, a sample`
        : `${n.toLocaleString("en")} clips`;
    this.canvas.setAttribute("aria-label",
        `Map of ${this.about.textContent} by the embedding ${this.of.value || data.names[0]}`);
    if (this.of.options.length !== data.names.length)
      this.of.replaceChildren(...data.names.map((name) => make("option", { value: name }, name)));
    this.of.hidden = isOne;
    this.paint();
  }

  /** The colour of each clip, and their legend. */
  paint() {
    const { values } = this.data, field = this.colour.value,
    entry = (colour, text) => make("li", {}, swatch(colour), ` ${text}`);
    const numbers = values.filter((value) => typeof value === "number");
    if (!field) {
      const found = kOutcomes.filter((name) => values.includes(name));
      this.colours = values.map((name) => `var(--${name === "rejected" ? "failed" : name})`);
      this.legend.replaceChildren(
          ...found.map((name) => make("li", {}, make("i", { class: `swatch ${name}` }), ` ${endName(name)}`)));
    } else if (numbers.length) {
      const low = numbers.reduce((a, b) => Math.min(a, b)), high = numbers.reduce((a, b) => Math.max(a, b));
      this.colours = values.map((value) =>
          (typeof value === "number" ? ramp((value - low) / (high - low || 1)) : "#888"));
      this.legend.replaceChildren(...[0, 0.25, 0.5, 0.75,
          1].map((at) => entry(ramp(at), textOf(field, low + at * (high - low)))));
    } else {
      const counts = new Map();
      for (const value of values) counts.set(value ?? "", (counts.get(value ?? "") ?? 0) + 1);
      const most = [...counts].sort((a,
          b) => b[1] - a[1] || String(a[0]).localeCompare(String(b[0]))).map(([name]) => name);
      const kind = new Map(most.map((name, at) => [name, Math.min(at, kKinds - 1)]));
      this.colours = values.map((value) => kKindColours[kind.get(value ?? "")]);
      const named = most.slice(0,
          most.length > kKinds ? kKinds - 1
          : kKinds).map((name, at) => entry(kKindColours[at], name === "" ? "none" : textOf(field, name)));
      this.legend.replaceChildren(...named,
          ...(most.length > kKinds ? [entry(kKindColours[kKinds - 1], `${number(most.length - kKinds + 1)} others`)]
          : []));
    }
  }

  draw() {
    const { canvas, data } = this, { clientWidth: width, clientHeight: height } = canvas;
    if (!this.isOpen || !width || !data) return;
    const scale = devicePixelRatio, style = getComputedStyle(this.element);
    canvas.width = width * scale;
    canvas.height = height * scale;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    this.lay(width, height);
    const known = new Map(),
    colour = (name) => known.get(name) ?? known.set(name,
    name.startsWith("var(") ? style.getPropertyValue(name.slice(4, -1)).trim() : name).get(name);
    const size = data.ids.length > 3000 ? 3 : 5, faint = style.getPropertyValue("--line").trim();
    for (const isIn of [false, true])
      data.ids.forEach((id, i) => {
        if (data.in[i] !== isIn) return;
        pen.fillStyle = isIn ? colour(this.colours[i]) : faint;
        pen.fillRect(this.at[i][0] - size / 2, this.at[i][1] - size / 2, size, size);
      });
    pen.strokeStyle = style.getPropertyValue("--text").trim();
    const focused = this.page.selected();
    data.ids.forEach((id, i) => {
      const isFocused = id === focused;
      if (!isFocused && !this.page.checked.has(id)) return;
      pen.lineWidth = isFocused ? 2 : 1;
      pen.strokeRect(this.at[i][0] - size / 2 - 2, this.at[i][1] - size / 2 - 2, size + 4, size + 4);
    });
    if (this.loop?.length > 1) {
      pen.lineWidth = 1.5;
      pen.stroke(pathOf(this.loop));
    }
  }

  /** Places in pixels; both axes have one scale. */
  lay(width, height) {
    const { x, y } = this.data,
    all = (values) => [values.reduce((a, b) => Math.min(a, b), Infinity),
    values.reduce((a, b) => Math.max(a, b), -Infinity)];
    const [left, right] = all(x), [low, high] = all(y);
    const scale = Math.min((width - 2 * kEdge) / (right - left || 1), (height - 2 * kEdge) / (high - low || 1));
    this.at = x.map((value, i) => [width / 2 + (value - (left + right) / 2) * scale,
        height / 2 - (y[i] - (low + high) / 2) * scale]);
  }

  listen() {
    const { canvas } = this, place = (event) => [event.offsetX, event.offsetY];
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.loop = [place(event)];
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.loop) return this.point(place(event));
      this.loop.push(place(event));
      requestAnimationFrame(() => this.draw());
    });
    canvas.addEventListener("pointerup", (event) => this.drawn(event.shiftKey));
    canvas.addEventListener("pointercancel", () => ((this.loop = null), this.draw()));
    canvas.addEventListener("pointerleave", () => (this.reading.hidden = true));
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  point(from) {
    const i = this.nearest(from);
    this.reading.hidden = i < 0;
    if (i < 0) return;
    const value = this.data.values[i], field = this.colour.value;
    this.reading.textContent = `${keyOf(this.data.ids[i])}: ${field ? textOf(field, value) : endName(value)}`;
  }

  nearest([x, y]) {
    let best = -1, least = kNear;
    (this.data ? this.at : []).forEach(([a, b], i) => {
      const far = Math.hypot(a - x, b - y);
      if (this.data.in[i] && far < least) [best, least] = [i, far];
    });
    return best;
  }

  /** A loop selects what it surrounds; a click opens a clip. */
  drawn(isMore) {
    const loop = this.loop ?? [];
    this.loop = null;
    if (!this.data) return;
    const length = loop.reduce((sum, [x, y], i) => sum + (i ? Math.hypot(x - loop[i - 1][0], y - loop[i - 1][1]) : 0),
        0);
    if (length > kNear) {
      const pen = make("canvas").getContext("2d"), path = pathOf(loop);
      this.page.lasso(this.data.ids.filter((id, i) => this.data.in[i] && pen.isPointInPath(path, ...this.at[i])),
          isMore);
    } else if (loop.length && this.nearest(loop[0]) >= 0) {
      this.page.choose(this.data.ids[this.nearest(loop[0])]);
    }
    this.draw();
  }

  /** The nearest clip in the direction of the arrow. */
  key(event) {
    const [dx, dy] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [0,
        0];
    if ((!dx && !dy) || event.shiftKey || !this.data?.ids.length) return;
    event.preventDefault();
    event.stopPropagation();
    const from = this.at[this.data.ids.indexOf(this.page.selected())];
    let best = -1, least = Infinity;
    this.at.forEach(([x, y], i) => {
      const along = from ? (x - from[0]) * dx + (y - from[1]) * dy : 1,
      aside = from ? Math.abs((x - from[0]) * dy) + Math.abs((y - from[1]) * dx) : 0;
      if (this.data.in[i] && along > 0.5 && along + 2 * aside < least) [best, least] = [i, along + 2 * aside];
    });
    if (best >= 0) this.page.choose(this.data.ids[best]);
  }
}

function pathOf(loop) {
  const out = new Path2D();
  loop.forEach(([x, y], i) => (i ? out.lineTo(x, y) : out.moveTo(x, y)));
  return out;
}

function ramp(share) {
  const at = Math.min(Math.max(share, 0), 1) * (kRamp.length - 1), i = Math.min(Math.floor(at), kRamp.length - 2);
  return `rgb(${kRamp[i].map((low, c) => Math.round(low + (at - i) * (kRamp[i + 1][c] - low))).join(" ")})`;
}

function swatch(colour) {
  const out = make("i", { class: "swatch" });
  out.style.background = colour;
  return out;
}
