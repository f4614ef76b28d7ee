// The panes of the page: the clips or their map, the conditions, and the selected clip. In a narrow window the last two
// cover the clips.
import { element, failed } from "./status.js";

export class Panes {
  constructor(sheet, map) {
    Object.assign(this, { sheet, map });
  }

  toClips() {
    (this.map.isOpen ? this.map.canvas : element("list")).focus({ preventScroll: true });
  }

  showMap(isOpen = !this.map.isOpen) {
    if (element("show-map").hidden) return;
    this.map.isOpen = isOpen;
    element("map").hidden = !isOpen;
    element("list").hidden = isOpen;
    element("show-map").setAttribute("aria-pressed", isOpen);
    if (!isOpen) return this.toClips();
    this.map.canvas.focus({ preventScroll: true });
    this.map.show().catch(failed);
  }

  resize(size) {
    element("size").value = size;
    this.sheet.resize(size);
    localStorage.setItem("size", size);
  }

  /** One size up or down. */
  resizeBy(step) {
    const names = [...element("size").options].map(({ value }) => value);
    this.resize(names[Math.min(Math.max(names.indexOf(this.sheet.size) + step, 0), names.length - 1)]);
  }

  openDetail() {
    element("detail").classList.add("open");
  }

  closeDetail() {
    element("detail").classList.remove("open");
    this.toClips();
  }

  openFilters(isOpen = !element("filters").classList.contains("open")) {
    element("filters").classList.toggle("open", isOpen);
    element("toggle-filters").setAttribute("aria-expanded", isOpen);
    if (isOpen) element("conditions").querySelector("button")?.focus();
  }

  /** The first outcome; from the outcomes, the first histogram. */
  toFilters() {
    const isThere = element("conditions").contains(document.activeElement);
    const bar = isThere && element("numbers").querySelector(".bars [tabindex='0']");
    if (bar) bar.focus();
    else this.openFilters(true);
  }

  /** Whether the clips have the focus and no pane covers them. */
  isAtClips() {
    const covers = (id) => element(id).classList.contains("open") && getComputedStyle(element(id)).position === "fixed";
    return [element("list"), this.map.canvas].includes(document.activeElement) && !["detail", "filters"].some(covers);
  }
}
