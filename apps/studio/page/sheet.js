// The contact sheet: a list of any length; only the visible cells exist as elements.
import { get } from "./api.js";
import { isUnmatched, nothingFor } from "./card.js";
import { blankCell, drawCell, fillCell, freeCell, makeCell } from "./cell.js";
import { keyOf } from "./format.js";
import { Hover } from "./hover.js";
import { Pictures } from "./pictures.js";
import { kWindow, Rows } from "./rows.js";

const kGap = 8; // pixels
// By size: the narrowest card, two columns of medium ones on a telephone, and the height below its picture.
const kSizes = { small: { narrowest: 112, text: 40 }, medium: { narrowest: 168, text: 76 },
    large: { narrowest: 300, text: 76 } };
const kLetter = 7.8; // mean width of a letter of a name, pixels

export class Sheet {
  constructor(list, space, query, events) {
    Object.assign(this, { list, space, query, events });
    this.rows = new Rows({ failed: events.failed, outdated: events.outdated, arrived: () => this.schedule(),
        inSight: () => this.inSight() });
    this.selected = -1; // index
    this.selectedId = ""; // "" while it is being loaded
    this.chosen = null; // a promise of the selected clip, at least {id, key}; keys act on it
    // counts changes of the selection and the list; an index requested earlier may refer to another clip
    this.changes = 0;
    // {chosen, found, keeps}: the first clip of the pending answer will be selected, or the selected one again if it is
    // there
    this.first = null;
    this.cells = new Map(); // index -> cell
    this.spare = [];
    this.pictures = new Pictures((id, bitmap) => this.showPicture(id, bitmap));
    this.size = "medium";
    this.hover = new Hover(list);
    this.checked = new Set(); // ids of the clips selected for an action
    this.loading = Promise.resolve(); // the latest reload
    list.addEventListener("scroll", () => this.schedule(), { passive: true });
    new ResizeObserver(() => this.layout()).observe(list);
    list.addEventListener("click", (event) => {
      const cell = event.target.closest(".cell");
      if (cell) events.clicked(cell.place, event);
    });
  }

  /** Requests everything visible again. The selected clip stays selected if it still exists, unless the first is to be
   * selected.
   * isNew: the query has changed, and if it hides the selected clip, the first is selected, or none. waits: keys of now
   * act on
   * what will be selected. Throws the answer away, by an AbortError, if there is a newer request. */
  reload({ toFirst = false, isNew = toFirst, waits = toFirst } = {}) {
    if (waits && !this.events.isWriting()) this.expectFirst(!toFirst);
    this.loading = this.load(isNew);
    this.loading.catch((error) => {
      if (error.name === "AbortError" || !this.first) return;
      this.first.found(this.first.before); // the view stays as it was
      this.first = null;
    });
    return this.loading;
  }

  async load(isNew) {
    this.asking?.abort();
    const { signal } = (this.asking = new AbortController());
    if (!this.first) await this.chosen?.catch(() => {});
    let id, first, place, edits, parameters;
    do {
      ({ edits } = this.rows);
      id = this.first?.keeps ? this.first.before : this.selectedId;
      parameters = this.query.parameters();
      [first, { place }] = await Promise.all([
        get("/api/clips", this.query.parameters({ from: 0, count: kWindow }), signal),
        id ? get("/api/place", this.query.parameters({ id }), signal) : { place: -1 },
      ]);
      signal.throwIfAborted();
    } while (edits !== this.rows.edits);
    const expected = this.first, stays = expected?.keeps && place >= 0;
    if (expected?.chosen !== this.chosen) this.first = null; // the user has selected another clip since
    const isElsewhere = !this.first && this.selectedId !== id;
    if (isElsewhere) place = first.rows.findIndex((row) => row.id === this.selectedId);
    ++this.changes;
    this.found = { by: first.by, why: first.why, hidden: first.hidden };
    this.shows = first.shows; // the number that the cards show
    this.unmatched = first.unmatched; // the largest similarity that is too small for a match; null: none
    this.matching = first.matching;
    this.videos = first.videos; // number of videos found
    if (this.first && !stays) this.list.scrollTop = 0;
    this.rows.begin(parameters, first);
    this.selected = place;
    this.layout();
    const best = Math.max(0, first.rows.findIndex((row) => !row.is_video)); // prefers a clip to an input video
    const isHidden = isNew && id && place < 0 && !isElsewhere && !this.events.isWriting();
    expected?.found(stays ? expected.before : first.rows[best]?.id);
    if (this.first) this.first = null;
    else if ((!this.chosen || isHidden) && this.total) this.select(best);
    else if (isHidden) this.selectNone();
    else if (isElsewhere && place < 0 && this.selectedId)
      this.choose(this.selectedId, this.chosen).catch(this.events.failed);
    return this.total;
  }

  /** Selects the first clip of the next answer, or none if it is empty. keeps: the selected clip instead, if the answer
   * has it. */
  expectFirst(keeps) {
    const before = this.first?.before ?? this.selectedId;
    this.first?.found(before);
    const coming = new Promise((found) => (this.first = { before, keeps, found }));
    this.selectComing(coming);
    this.first.chosen = this.chosen;
  }

  get total() {
    return this.rows.total;
  }

  layout() {
    const width = this.list.clientWidth;
    if (!width) return;
    const { narrowest, text } = kSizes[this.size];
    this.columns = Math.max(1, Math.floor((width - kGap) / (narrowest + kGap)));
    this.cellWidth = Math.floor((width - kGap) / this.columns) - kGap;
    this.cellHeight = Math.round((this.cellWidth * 9) / 16) + text;
    this.room = Math.floor((this.cellWidth - 14) / kLetter); // letters of a name
    this.rowHeight = this.cellHeight + kGap;
    this.space.style.height = `${Math.ceil(this.total / this.columns) * this.rowHeight + kGap}px`;
    for (const cell of this.cells.values()) this.free(cell);
    this.cells.clear();
    this.render();
  }

  /** size: of kSizes. The selected clip, or the first one in sight, stays in sight. */
  resize(size) {
    const place = this.selected >= 0 ? this.selected : Math.floor(this.list.scrollTop / this.rowHeight) * this.columns;
    this.size = size;
    this.list.dataset.size = size;
    this.layout();
    if (this.columns && this.total) this.list.scrollTop = Math.floor(place / this.columns) * this.rowHeight;
  }

  schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      this.render();
    });
  }

  /** Visible indices, with an extra row on both sides. */
  inSight() {
    const top = Math.floor(this.list.scrollTop / this.rowHeight) - 1;
    const rows = Math.ceil(this.list.clientHeight / this.rowHeight) + 3;
    return [Math.max(0, top * this.columns), Math.min(this.total, (top + rows) * this.columns)];
  }

  render() {
    if (!this.columns) return;
    const [first, end] = this.inSight();
    for (const [place, cell] of this.cells)
      if (place < first || place >= end) {
        this.free(cell);
        this.cells.delete(place);
      }
    let before = null;
    for (let place = first; place < end; ++place) {
      let cell = this.cells.get(place);
      if (!cell) {
        cell = this.spare.pop() ?? makeCell();
        this.cells.set(place, cell);
        this.put(cell, place);
      }
      // in the order of the list, for screen readers
      if (!cell.isConnected) before ? before.after(cell) : this.space.prepend(cell);
      before = cell;
      const row = this.rows.at(place);
      if (cell.row !== row) this.fill(cell, row);
    }
    this.mark();
    if (this.list.scrollTop > 0) this.askAhead();
    clearTimeout(this.settled);
    // skips cells that are only scrolled past
    this.settled = setTimeout(() => (this.wantPictures(), this.askAhead()), 60);
  }

  /** Requests rows around those in sight, so that scrolling meets no empty card. */
  askAhead() {
    const [first, end] = this.inSight();
    for (const place of [end + kWindow, first - kWindow, end + 2 * kWindow]) if (place >= 0 && place < this.total)
      this.rows.at(place);
  }

  free(cell) {
    this.hover.left(cell);
    freeCell(cell);
    this.spare.push(cell);
  }

  put(cell, place) {
    const column = place % this.columns, row = Math.floor(place / this.columns);
    cell.place = place;
    cell.id = `clip-${place}`;
    cell.style.width = `${this.cellWidth}px`;
    cell.style.height = `${this.cellHeight}px`;
    cell.style.transform = `translate(${kGap + column * (this.cellWidth + kGap)}px, ${kGap + row * this.rowHeight}px)`;
    cell.setAttribute("aria-posinset", place + 1);
    cell.setAttribute("aria-setsize", this.total);
  }

  /** row: null while it is being loaded. */
  fill(cell, row) {
    if (this.hover.cell === cell && cell.shown !== row?.id) this.hover.left(cell);
    const { place } = cell, before = this.rows.known(place - 1), after = this.rows.known(place + 1);
    fillCell(cell, row, row && this.pictures.of(row.id), {
        shows: this.shows, unmatched: this.unmatched, room: this.room,
        neighbours: (place > 0 ? [before, after] : [after]).map((other) => other?.key ?? ""),
        isBorder: !this.rows.shown.parameters.get("sort")
        && (place === 0 || Boolean(before && !isUnmatched(before, this.unmatched))) });
  }

  wantPictures() {
    this.pictures.want([...this.cells.values()].filter((cell) =>
        cell.row && cell.row.end !== "failed").map((cell) => cell.row.id));
  }

  /** The clip's picture has arrived; null: it has none. */
  showPicture(id, bitmap) {
    for (const cell of this.cells.values()) {
      if (cell.row?.id !== id) continue;
      cell.shown = "";
      bitmap ? drawCell(cell, bitmap) : blankCell(cell, nothingFor(cell.row));
    }
  }

  mark() {
    for (const [place, cell] of this.cells) {
      cell.setAttribute("aria-selected", place === this.selected);
      cell.setAttribute("aria-checked", Boolean(cell.row && this.checked.has(cell.row.id)));
    }
    if (this.cells.has(this.selected)) this.list.setAttribute("aria-activedescendant", `clip-${this.selected}`);
    else this.list.removeAttribute("aria-activedescendant");
  }

  /** Selects the clip at an index; its row may still be loading. */
  select(place) {
    if (!this.total) return;
    this.bring(Math.min(Math.max(place, 0), this.total - 1));
    const row = this.rows.at(this.selected);
    if (row) this.chose(row);
    // the list may have changed by then
    else this.expect(this.rows.coming(this.selected),
        ({ id }) => this.choose(id, this.chosen).catch(this.events.failed));
  }

  /** Selects by id; a clip hidden by the filters only opens in the detail view. expected: the promise of it, if already
   * chosen. */
  async choose(id, expected = undefined) {
    const known = this.rows.find(id);
    if (known) {
      this.bring(known.place);
      return this.chose(known.row, expected);
    }
    this.selected = -1;
    this.mark();
    this.chose({ id, key: keyOf(id) }, expected);
    const { changes } = this;
    const { place } = await get("/api/place", this.rows.inList({ id }));
    if (place >= 0 && changes === this.changes) this.bring(place);
  }

  /** Selects the clip whose id is still being loaded; undefined or "": none. */
  selectComing(id) {
    const coming = id.then((id) => (id ? this.rows.find(id)?.row ?? { id, key: keyOf(id) } : { id: "", key: "" }));
    this.expect(coming, ({ id }) => (id ? this.choose(id, this.chosen).catch(this.events.failed) : this.selectNone()));
  }

  selectNone() {
    ++this.changes;
    Object.assign(this, { chosen: null, selected: -1, selectedId: "" });
    this.mark();
    this.events.selected(undefined);
  }

  /** Selects the clip that the promise `coming` gives; if it fails, the earlier selection returns. */
  expect(coming, arrived) {
    const before = this.selectedId;
    this.chose(null, coming);
    coming.then(
      (row) => this.chosen === coming && arrived(row),
      (error) => {
        this.events.failed(error);
        if (this.chosen === coming && before) this.choose(before).catch(this.events.failed);
      },
    );
  }

  chose(row, chosen = undefined) {
    ++this.changes;
    const isExpected = Boolean(row && chosen);
    this.chosen = chosen ?? Promise.resolve(row);
    this.selectedId = row?.id ?? "";
    this.events.selected(row, isExpected);
  }

  /** The row of the selected clip, if it is loaded. */
  selectedRow() {
    return this.selectedId ? this.rows.find(this.selectedId)?.row : undefined;
  }

  /** Marks the index and scrolls it into view. */
  bring(place) {
    this.selected = place;
    const top = Math.floor(this.selected / this.columns) * this.rowHeight;
    if (top < this.list.scrollTop) this.list.scrollTop = top;
    else if (top + this.rowHeight + kGap > this.list.scrollTop + this.list.clientHeight)
      this.list.scrollTop = top + this.rowHeight + kGap - this.list.clientHeight;
    this.render();
  }

  /** The row of a changed clip. */
  update(row) {
    this.rows.update(row);
    this.render();
  }

  page() {
    return Math.max(1, Math.floor(this.list.clientHeight / this.rowHeight)) * this.columns;
  }
}
