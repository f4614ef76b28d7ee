// A map of the clips by their embeddings: their pictures, or squares if they are many, coloured by a fact, with the
// names of groups. A loop drawn around clips selects them; arrows go from clip to clip.
import { get } from "./api.js";
import { make, styled } from "./elements.js";
import { endName, keyOf, plural } from "./format.js";
import { coloursOf } from "./map_colours.js";
import { boxOf, Drawing, kSmallest, pathOf } from "./map_drawing.js";
import { groupsOf, inside } from "./map_groups.js";
import { placed, placesOf } from "./map_places.js";
import { menuGroups, textOf, titleOf } from "./names.js";
import { Pictures } from "./pictures.js";

const kNear = 12; // pixels between the pointer and the clip that it means
const kEdge = 16; // pixels around the points
const kLabel = 22; // height of a group's name

export class ClipMap {
  /** page: {query, fields(): names of numbers, choose(id), open(id), lasso(ids, isMore), selected(): the id of the
   * focused clip, checked: a Set of ids, failed}. */
  constructor(element, page) {
    // under: the clip under the pointer, or that an arrow has led to, -1: none
    Object.assign(this, { element, page, isOpen: false, at: [], under: -1 });
    this.pictures = new Pictures(() => this.drawSoon());
    this.canvas = make("canvas", { tabIndex: 0, role: "img", "aria-describedby": "map-help" });
    this.colour = make("select", { "aria-label": "Colour", onchange: () => this.show().catch(page.failed) });
    this.of = make("select",
        { "aria-label": "Embedding", hidden: true, onchange: () => this.show().catch(page.failed) });
    this.about = make("span", { class: "muted" });
    this.legend = make("ul", { class: "legend", "aria-label": "Colours of the map" });
    this.reading = make("b", { class: "reading", hidden: true });
    this.offer([]);
    this.names = make("ul", { class: "names", "aria-label": "Groups of the map" });
    const help = make("p", { id: "map-help", class: "muted" }, "Near clips look alike. Draw around clips, or take a " +
        "group by its name, to select them, with Shift to add; arrows go to the next clip.");
    element.append(make("div", { class: "row" }, make("label", {}, "Colour ", this.colour), this.of, this.about), help,
        this.legend, make("div", { class: "plane" }, this.canvas, this.names, this.reading));
    this.listen();
    new ResizeObserver(() => this.lay()).observe(this.canvas.parentElement);
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
    this.under = -1;
    this.tell();
    this.lay();
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
    const isOne = data.names.length < 2;
    this.about.textContent = this.counted();
    this.canvas.setAttribute("aria-label",
        `Map of ${this.about.textContent} by the embedding ${this.of.value || data.names[0]}`);
    if (this.of.options.length !== data.names.length)
      this.of.replaceChildren(...data.names.map((name) => make("option", { value: name }, name)));
    this.of.hidden = isOne;
    const shown = data.ids.map((_, i) => i).filter((i) => data.in[i]);
    const [colours, legend] = coloursOf(shown.map((i) => data.values[i]), this.colour.value);
    this.colours = [];
    shown.forEach((i, n) => (this.colours[i] = colours[n]));
    this.legend.replaceChildren(...legend);
  }

  /** How many clips the map shows, and what the others are. */
  counted() {
    const { data, page: { query } } = this, n = data.ids.length, shown = data.in.filter(Boolean).length;
    const of = (part, all) => `${part.toLocaleString("en")} of ${all.toLocaleString("en")} clips`;
    if (n < data.all) return `${of(n, data.all)}, a sample`;
    const others = query.isEmpty() && !query.copies ? "copies" : "not in this view";
    return shown < n ? `${of(shown, n)}; the others are ${others}` : `${n.toLocaleString("en")} clips`;
  }

  /** Places the clips of the view, the rest, and the names of groups. */
  lay() {
    const { canvas, data } = this, { clientWidth: width, clientHeight: height } = canvas;
    if (!this.isOpen || !width || !data) return;
    this.box = boxOf(data.in.filter(Boolean).length, [width, height]);
    const edge = this.box ? this.box.map((side) => side / 2 + kEdge / 2) : [kEdge, kEdge];
    this.at = placesOf(data.x, data.y, [width, height], [edge[0], edge[1] + (this.box ? kLabel : 0)]);
    const shown = data.ids.map((_, i) => i).filter((i) => data.in[i]);
    const groups = groupsOf(shown.map((i) => this.at[i]), shown.map((i) => data.captions[i]),
        shown.map((i) => keyOf(data.ids[i])));
    if (this.box) {
      const [apart, box] = placed(shown.map((i) => this.at[i]), this.box, kSmallest[0], [width, height], kLabel);
      apart.forEach((place, n) => (this.at[shown[n]] = place));
      this.box = box;
    }
    this.name(groups.map(({ name, members }) => ({ name, members: members.map((n) => shown[n]) })), width);
    this.draw();
  }

  /** Buttons over the map; each above a clip of its group, and none over another. */
  name(groups, width) {
    const taken = [], up = (this.box ? this.box[1] / 2 : 4) + kLabel + 2;
    this.names.replaceChildren(...groups.map(({ name, members }) => {
      const ids = members.map((i) => this.data.ids[i]);
      const button = make("button",
          { type: "button", onclick: (event) => this.page.lasso(ids, event.shiftKey), "aria-label":
          `Select ${plural(ids.length, "clip")}: ${name}` }, name, make("span", { class: "muted" }, ` ${ids.length}`));
      const across = 4 * name.length + 20; // half of its width, about
      const isFree = ([x, y]) =>
          !taken.some(([a, b, other]) => Math.abs(a - x) < across + other && Math.abs(b - y) < kLabel);
      const places = inside(members.map((i) => this.at[i])).map(([x, y]) =>
          [Math.min(Math.max(x, across), Math.max(width - across, across)), Math.max(2, y - up)]);
      const [left, y] = places.find(isFree) ?? places[0];
      taken.push([left, y, across]);
      return styled(make("li", {}, button), { left: `${left}px`, top: `${y}px` });
    }));
  }

  drawSoon() {
    if (this.waits) return;
    this.waits = true;
    requestAnimationFrame(() => ((this.waits = false), this.draw()));
  }

  draw() {
    const { canvas, data, box } = this;
    if (!this.isOpen || !canvas.clientWidth || this.at.length !== data?.ids.length) return;
    const style = getComputedStyle(this.element), known = new Map(), of = (name) => style.getPropertyValue(name).trim();
    const custom = (name) => known.get(name) ?? known.set(name, of(name)).get(name);
    const colour = (i) => (this.colours[i].startsWith("var(") ? custom(this.colours[i].slice(4, -1)) : this.colours[i]);
    const drawing = new Drawing(canvas, custom), size = data.ids.length > 3000 ? 3 : 5, focused = this.page.selected();
    const shown = data.ids.map((_, i) => i).filter((i) => data.in[i]);
    data.ids.forEach((_, i) => data.in[i] || drawing.square(this.at[i], size, custom("--line")));
    const marks = (i) => ({ focused: data.ids[i] === focused, checked: this.page.checked.has(data.ids[i]) });
    for (const i of shown) {
      if (box) drawing.picture(this.pictures.of(data.ids[i]), this.at[i], box, colour(i), marks(i));
      else drawing.square(this.at[i], size, colour(i));
    }
    if (!box)
      for (const i of shown) drawing.marks(this.at[i][0] - size, this.at[i][1] - size, 2 * size, 2 * size, marks(i));
    const large = this.loop || this.under < 0 ? null : this.pictures.of(data.ids[this.under]);
    if (large) drawing.enlarged(large, this.at[this.under], colour(this.under), marks(this.under));
    if (this.loop?.length > 1) drawing.loop(this.loop);
    const first = this.under >= 0 ? [data.ids[this.under]] : [];
    this.pictures.want(box ? [...first, ...shown.map((i) => data.ids[i])] : first);
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
      this.drawSoon();
    });
    canvas.addEventListener("pointerup", (event) => this.drawn(event.shiftKey));
    canvas.addEventListener("pointercancel", () => ((this.loop = null), this.draw()));
    canvas.addEventListener("pointerleave", () => this.look(-1));
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  point(from) {
    if (this.data) this.look(this.nearest(from));
  }

  /** Enlarges the clip and says which it is. */
  look(i) {
    if (i === this.under && this.reading.hidden === i < 0) return;
    this.under = i;
    this.reading.hidden = i < 0;
    this.drawSoon();
    if (i < 0) return;
    const value = this.data.values[i], field = this.colour.value;
    this.reading.textContent = `${keyOf(this.data.ids[i])}: ${field ? textOf(field, value) : endName(value)}`;
  }

  /** The clip at a place: the nearest whose picture holds it. */
  nearest([x, y]) {
    const [w, h] = this.box?.map((side) => side / 2) ?? [kNear, kNear];
    let best = -1, least = Infinity;
    this.at.forEach(([a, b], i) => {
      const far = Math.hypot(a - x, b - y);
      if (this.data.in[i] && Math.abs(a - x) <= w && Math.abs(b - y) <= h && far < least) [best, least] = [i, far];
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
      this.page.open(this.data.ids[this.nearest(loop[0])]);
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
    if (best < 0) return;
    this.page.choose(this.data.ids[best]);
    this.look(best);
  }
}
