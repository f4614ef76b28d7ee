// The contact sheet: a list of any length; only the visible cells exist as elements.
import { get } from "./api.js";
import { markOf, near, nothingFor, scoreOf, spoken } from "./card.js";
import { make } from "./elements.js";
import { keyOf, markClass, seconds } from "./format.js";
import { Hover } from "./hover.js";
import { Pictures } from "./pictures.js";

const kWindow = 100; // rows per request
const kWindows = 40; // windows kept
const kGap = 8; // pixels
// By size: the narrowest card, two columns of medium ones on a telephone, and the height below its picture.
const kSizes = { small: { narrowest: 112, text: 40 }, medium: { narrowest: 168, text: 76 },
    large: { narrowest: 300, text: 76 } };
const kLetter = 7.8; // mean width of a letter of a name, pixels
const kTailShare = 0.6; // of a name that is cut in its middle

export class Sheet {
  constructor(list, space, query, events) {
    Object.assign(this, { list, space, query, events });
    this.total = 0;
    this.selected = -1; // index
    this.selectedId = ""; // "" while it is being loaded
    this.chosen = null; // a promise of the selected clip, at least {id, key}; keys act on it
    // counts changes of the selection and the list; an index requested earlier may refer to another clip
    this.changes = 0;
    this.edits = 0; // counts changes of rows; rows requested earlier are requested again
    // {chosen, found, keeps}: the first clip of the pending answer will be selected, or the selected one again if it is
    // there
    this.first = null;
    this.windows = new Map(); // index of a window -> rows, or a promise of them
    this.cells = new Map(); // index -> cell
    this.spare = [];
    this.pictures = new Pictures((id, bitmap) => this.showPicture(id, bitmap));
    this.size = "medium";
    this.hover = new Hover(list);
    this.checked = new Set(); // ids of the clips selected for an action
    // the query of the list, and the version of the studio's answer
    this.shown = { parameters: new URLSearchParams(), at: 0 };
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
      ({ edits } = this);
      id = this.first?.keeps ? this.first.before : this.selectedId;
      parameters = this.query.parameters();
      [first, { place }] = await Promise.all([
        get("/api/clips", this.query.parameters({ from: 0, count: kWindow }), signal),
        id ? get("/api/place", this.query.parameters({ id }), signal) : { place: -1 },
      ]);
      signal.throwIfAborted();
    } while (edits !== this.edits);
    const expected = this.first, stays = expected?.keeps && place >= 0;
    if (expected?.chosen !== this.chosen) this.first = null; // the user has selected another clip since
    const isElsewhere = !this.first && this.selectedId !== id;
    if (isElsewhere) place = first.rows.findIndex((row) => row.id === this.selectedId);
    ++this.changes;
    this.shown = { parameters, at: first.version };
    this.found = { by: first.by, why: first.why, hidden: first.hidden };
    this.shows = first.shows; // the number that the cards show
    this.videos = first.videos; // number of videos found
    if (this.first && !stays) this.list.scrollTop = 0;
    this.windows.clear();
    this.windows.set(0, first.rows);
    this.total = first.total;
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

  layout() {
    const width = this.list.clientWidth;
    if (!width) return;
    const { narrowest, text } = kSizes[this.size];
    this.columns = Math.max(1, Math.floor((width - kGap) / (narrowest + kGap)));
    this.cellWidth = Math.floor((width - kGap) / this.columns) - kGap;
    this.cellHeight = Math.round((this.cellWidth * 9) / 16) + text;
    // letters of a name that are always shown
    this.tail = Math.max(4, Math.floor(((this.cellWidth - 14) / kLetter) * kTailShare));
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
    for (let place = first; place < end; ++place) {
      let cell = this.cells.get(place);
      if (!cell) {
        cell = this.spare.pop() ?? this.makeCell();
        this.cells.set(place, cell);
        this.put(cell, place);
      }
      const row = this.row(place);
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
      this.row(place);
  }

  makeCell() {
    const cell = make("div", { class: "cell", role: "option" });
    cell.canvas = make("canvas", { width: 320, height: 180 });
    cell.none = make("div", { class: "none" });
    cell.near = make("span", { class: "near" });
    cell.time = make("span", { class: "time" });
    cell.head = make("span", { class: "head" });
    cell.tail = make("span");
    cell.key = make("span", { class: "key" }, cell.head, cell.tail);
    cell.end = make("span", { class: "mark" });
    cell.scores = make("span", { class: "scores" });
    cell.caption = make("div", { class: "caption" });
    cell.append(make("div", { class: "still" }, cell.canvas, cell.none, cell.near, cell.time,
        make("span", { class: "check" })), make("div", { class: "line" }, cell.key),
        make("div", { class: "line" }, cell.end, cell.scores), cell.caption);
    this.space.append(cell);
    return cell;
  }

  free(cell) {
    this.hover.left(cell);
    cell.hidden = true;
    cell.removeAttribute("id");
    cell.setAttribute("aria-selected", "false");
    cell.setAttribute("aria-checked", "false");
    cell.row = undefined;
    cell.shown = "";
    this.spare.push(cell);
  }

  put(cell, place) {
    const column = place % this.columns, row = Math.floor(place / this.columns);
    cell.place = place;
    cell.id = `clip-${place}`;
    cell.hidden = false;
    cell.style.width = `${this.cellWidth}px`;
    cell.style.height = `${this.cellHeight}px`;
    cell.style.transform = `translate(${kGap + column * (this.cellWidth + kGap)}px, ${kGap + row * this.rowHeight}px)`;
    cell.setAttribute("aria-posinset", place + 1);
    cell.setAttribute("aria-setsize", this.total);
  }

  /** row: null while it is being loaded. */
  fill(cell, row) {
    cell.row = row;
    cell.className = `cell ${row ? `${row.end} ${row.decision}` : ""}`;
    const name = row ? row.key : "", from = this.cut(name, cell.place),
    letters = Math.min(name.length - from, this.tail);
    cell.head.textContent = name.slice(0, from);
    cell.tail.textContent = name.slice(from);
    cell.head.style.maxWidth = `calc(100% - ${letters}ch)`;
    cell.tail.style.maxWidth = name.length - from > letters ? `${letters}ch` : "100%";
    cell.key.title = row ? row.key : "";
    cell.end.textContent = row ? markOf(row) : "";
    cell.end.className = row ? markClass(row) : "mark";
    cell.time.textContent = row && row.duration_s !== null ? seconds(row.duration_s) : "";
    cell.near.textContent = row ? near(row) : "";
    cell.caption.textContent = row ? row.caption : "";
    cell.scores.textContent = row
        ? [row.place, row.tags.map((tag) => `#${tag}`).join(" "), scoreOf(row, this.shows)].filter(Boolean).join(" · ")
        : "";
    cell.scores.title = cell.scores.textContent;
    if (this.hover.cell === cell && cell.shown !== row?.id) this.hover.left(cell);
    cell.setAttribute("aria-label", row ? spoken(row) : "loading");
    const bitmap = row && this.pictures.of(row.id);
    if (bitmap) this.draw(cell, bitmap);
    else this.blank(cell, row && (bitmap === null || row.end === "failed") ? nothingFor(row) : "");
  }

  /** Where a name that is too long is cut: before the word or number in which it differs from its neighbours, else near
   * its end. */
  cut(name, place) {
    const known = (at) => this.windows.get(Math.floor(at / kWindow))?.[at % kWindow]?.key ?? "",
    last = Math.max(0, name.length - this.tail);
    const same = (other) => [...name].findIndex((letter, at) => letter !== other[at]);
    let from = Math.max(...[place - 1, place + 1].map((at) => (at < 0 ? 0 : same(known(at)))));
    while (from > 0 && /[\p{L}\p{N}]/u.test(name[from - 1])) --from;
    return Math.min(from < 1 ? last : from, last);
  }

  draw(cell, picture) {
    if (cell.shown === cell.row.id) return;
    const context = (cell.context ??= cell.canvas.getContext("2d", { alpha: false }));
    Object.assign(cell.canvas, { width: picture.width, height: picture.height }); // in its own shape: styles fit it in
    context.drawImage(picture, 0, 0);
    cell.canvas.style.visibility = "visible";
    cell.none.textContent = "";
    cell.shown = cell.row.id;
  }

  blank(cell, text) {
    cell.canvas.style.visibility = "hidden";
    cell.none.textContent = text;
    cell.shown = "";
  }

  /** The row at an index, or null; requests its window if necessary. */
  row(place) {
    const at = Math.floor(place / kWindow);
    const rows = this.windows.get(at);
    if (Array.isArray(rows)) return rows[place % kWindow] ?? null;
    if (!rows) this.ask(at);
    return null;
  }

  /** Parameters for a part of the list, even if edits have changed what the query finds. */
  inList(more) {
    const out = new URLSearchParams(this.shown.parameters);
    for (const [name, value] of Object.entries({ at: this.shown.at, ...more })) out.set(name, value);
    return out;
  }

  ask(at) {
    const asked = get("/api/clips", this.inList({ from: at * kWindow, count: kWindow }));
    // else its rows stay until the new ones arrive
    if (!Array.isArray(this.windows.get(at))) this.windows.set(at, asked);
    const { edits, shown } = this;
    asked.then(
      (answer) => {
        const now = this.windows.get(at);
        if (shown !== this.shown || (now !== asked && !Array.isArray(now))) return; // the query has changed since
        if (edits !== this.edits) return this.ask(at); // the rows may be older than an edit
        if (answer.version !== shown.at) return this.events.outdated(); // the studio has forgotten the list
        this.windows.set(at, answer.rows);
        for (const known of this.windows.keys()) if (this.windows.size > kWindows && known !== at && known !== 0)
          this.windows.delete(known);
        this.schedule();
      },
      (error) => {
        if (this.windows.get(at) === asked) this.windows.delete(at);
        this.events.failed(error);
      },
    );
  }

  /** Requests the rows again after many have changed, in the same order. */
  again() {
    ++this.edits;
    const [first, end] = this.inSight(),
    isSeen = (at) => at >= Math.floor(first / kWindow) && at <= Math.floor((end - 1) / kWindow);
    for (const at of [...this.windows.keys()]) {
      if (!isSeen(at) || !Array.isArray(this.windows.get(at))) this.windows.delete(at);
      if (isSeen(at)) this.ask(at);
    }
  }

  /** The ids of a range of the list, or a promise of them. */
  idsBetween(first, last) {
    const ids = [];
    for (let place = first; place <= last; ++place) {
      const row = this.windows.get(Math.floor(place / kWindow))?.[place % kWindow];
      if (!row) return this.askIds(first, last);
      ids.push(row.id);
    }
    return ids;
  }

  async askIds(first, last) {
    const { at } = this.shown;
    const { ids, version } = await get("/api/ids", this.inList({ from: first, count: last - first + 1 }));
    if (version === at) return ids;
    this.events.outdated();
    throw new Error("The clips of this view have changed meanwhile; select again");
  }

  wantPictures() {
    const rows = [...this.cells.values()].map((cell) => cell.row);
    this.pictures.want(rows.filter((row) => row && row.end !== "failed").map((row) => row.id));
  }

  /** bitmap: null if the clip has no picture. */
  showPicture(id, bitmap) {
    for (const cell of this.cells.values()) {
      if (cell.row?.id !== id) continue;
      cell.shown = "";
      bitmap ? this.draw(cell, bitmap) : this.blank(cell, nothingFor(cell.row));
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
    const row = this.row(this.selected);
    if (row) this.chose(row);
    // the list may have changed by then
    else this.expect(this.rowOf(this.selected), ({ id }) => this.choose(id, this.chosen).catch(this.events.failed));
  }

  /** Selects by id; a clip hidden by the filters only opens in the detail view. expected: the promise of it, if already
   * chosen. */
  async choose(id, expected = undefined) {
    const known = this.find(id);
    if (known) {
      this.bring(known.place);
      return this.chose(known.row, expected);
    }
    this.selected = -1;
    this.mark();
    this.chose({ id, key: keyOf(id) }, expected);
    const { changes } = this;
    const { place } = await get("/api/place", this.inList({ id }));
    if (place >= 0 && changes === this.changes) this.bring(place);
  }

  /** Selects the clip whose id is still being loaded; undefined or "": none. */
  selectComing(id) {
    const coming = id.then((id) => (id ? this.find(id)?.row ?? { id, key: keyOf(id) } : { id: "", key: "" }));
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
    return this.selectedId ? this.find(this.selectedId)?.row : undefined;
  }

  find(id) {
    for (const [at, rows] of this.windows) {
      const i = Array.isArray(rows) ? rows.findIndex((row) => row.id === id) : -1;
      if (i >= 0) return { place: at * kWindow + i, row: rows[i] };
    }
    return undefined;
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

  async rowOf(place) {
    const answer = await this.windows.get(Math.floor(place / kWindow));
    const row = (answer.rows ?? answer)[place % kWindow];
    if (!row) throw new Error("That clip no longer exists");
    return row;
  }

  /** Updates the row of a changed clip without requesting all rows. Rows being loaded may be older and are requested
   * again. */
  update(row) {
    ++this.edits;
    for (const [at, rows] of this.windows) {
      if (!Array.isArray(rows)) {
        this.windows.delete(at);
        continue;
      }
      const i = rows.findIndex((old) => old.id === row.id);
      if (i >= 0) rows[i] = { ...row, similarity: rows[i].similarity, value: rows[i].value };
    }
    this.render();
  }

  page() {
    return Math.max(1, Math.floor(this.list.clientHeight / this.rowHeight)) * this.columns;
  }
}
