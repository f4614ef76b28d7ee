// Two pictures or players that are looked at together: zoomed and moved as one, next to each other, or one over the
// other with an edge between them that wipes.
import { percent } from "./charts.js";
import { make, styled } from "./elements.js";

const kMost = 8; // times
const kStep = 1.25;
const kMove = 0.1; // of the visible part, for a key
const kClick = 2; // of the size, for a double click

export class Pair {
  constructor() {
    const button = (label, text, onclick) => make("button",
        { type: "button", "aria-label": label, title: label, onclick }, text);
    this.wipes = make("button", { type: "button", "aria-pressed": "false", onclick: () => this.wipe() }, "Wipe (w)");
    this.edge = make("input",
        { type: "range", min: 0, max: 100, step: 1, value: 50, "aria-label": "Edge between the two pictures",
        oninput: () => this.draw() });
    this.size = make("span", { class: "muted", role: "status" });
    this.frames = make("div", { class: "frames" });
    const tools = make("div", { class: "row", role: "toolbar", "aria-label": "Pictures" }, this.wipes,
        button("Smaller (-)", "−", () => this.zoom(1 / kStep)),
        button("Larger (+)", "+", () => this.zoom(kStep)), button("Whole pictures (0)", "Whole", () => this.whole()),
        this.size);
    this.element = make("div", { class: "pair" }, tools, this.frames, this.edge);
    this.isWiped = false;
    this.listen();
    this.whole();
  }

  /** media: two elements; shape: width by height of their frames. Keeps what is looked at. */
  show(media, shape) {
    this.media = media;
    styled(this.frames, { "--shape": Math.min(Math.max(shape || 16 / 9, 0.8), 2) });
    this.frames.replaceChildren(...media.map((one) => make("div", { class: "frame" }, one)));
    this.draw();
  }

  clear() {
    this.media = null;
    this.frames.replaceChildren(); // ends both players
  }

  wipe() {
    this.isWiped = !this.isWiped;
    this.draw();
  }

  whole() {
    Object.assign(this, { scale: 1, x: 0, y: 0 }); // x, y: of the frame, by which the picture's middle is moved
    this.draw();
  }

  /** at: the place that stays, in frames from the middle. */
  zoom(by, at = [0, 0]) {
    const scale = Math.min(Math.max(this.scale * by, 1), kMost), grown = scale / this.scale;
    this.scale = scale;
    this.move(at[0] * (1 - grown) + this.x * (grown - 1), at[1] * (1 - grown) + this.y * (grown - 1));
  }

  move(dx, dy) {
    const most = (this.scale - 1) / 2, within = (value) => Math.min(Math.max(value, -most), most);
    this.x = within(this.x + dx);
    this.y = within(this.y + dy);
    this.draw();
  }

  draw() {
    const { scale, x, y, isWiped } = this;
    this.frames.classList.toggle("wiped", isWiped);
    this.frames.classList.toggle("zoomed", scale > 1);
    this.edge.hidden = !isWiped;
    this.edge.setAttribute("aria-valuetext", `${this.edge.value} % of the first`);
    this.wipes.setAttribute("aria-pressed", isWiped);
    this.size.textContent = `${Math.round(100 * scale)} %`;
    for (const one of this.media ?? [])
      styled(one, { transform: `translate(${percent(x)}, ${percent(y)}) scale(${scale})` });
    const over = this.frames.children[1];
    if (over) styled(over, { "clip-path": isWiped ? `inset(0 0 0 ${this.edge.value}%)` : "none" });
    styled(this.frames, { "--edge": `${this.edge.value}%` });
  }

  /** Where the pointer is, in frames from the middle. */
  place(event) {
    const box = (event.target.closest(".frame") ?? this.frames).getBoundingClientRect();
    return [(event.clientX - box.left) / box.width - 0.5, (event.clientY - box.top) / box.height - 0.5];
  }

  listen() {
    const { frames } = this;
    frames.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? kStep : 1 / kStep, this.place(event));
    }, { passive: false });
    frames.addEventListener("dblclick",
        (event) => (this.scale > 1 ? this.whole() : this.zoom(kClick, this.place(event))));
    frames.addEventListener("pointerdown", (event) => {
      frames.setPointerCapture(event.pointerId);
      this.from = [event.clientX, event.clientY];
      this.drag(event);
    });
    frames.addEventListener("pointermove", (event) => frames.hasPointerCapture(event.pointerId) && this.drag(event));
  }

  /** A whole picture has nothing to move, so the pointer takes the edge. */
  drag(event) {
    const box = this.frames.firstChild?.getBoundingClientRect();
    if (!box) return;
    if (this.isWiped && this.scale === 1) {
      this.edge.value = (100 * (event.clientX - box.left)) / box.width;
      return this.draw();
    }
    const [x, y] = this.from;
    this.from = [event.clientX, event.clientY];
    this.move((event.clientX - x) / box.width, (event.clientY - y) / box.height);
  }

  /** Whether the key was one of these. */
  key({ key, shiftKey }) {
    const moves = { ArrowLeft: [kMove, 0], ArrowRight: [-kMove, 0], ArrowUp: [0, kMove], ArrowDown: [0, -kMove] };
    if (shiftKey && moves[key]) this.move(...moves[key]);
    else if (key === "+" || key === "=") this.zoom(kStep);
    else if (key === "-") this.zoom(1 / kStep);
    else if (key === "0") this.whole();
    else if (key === "w") this.wipe();
    else return false;
    return true;
  }
}
