// The rows of the view that are loaded: windows of the list, requested when a place in them is wanted, and again after
// edits.
import { get } from "./api.js";

export const kWindow = 100; // rows per request
const kWindows = 40; // windows kept

export class Rows {
  /** events: {failed, outdated(): the studio has forgotten the list, arrived(): of a window, inSight(): [first, end] of
   * the visible places}. */
  constructor(events) {
    this.events = events;
    this.total = 0;
    this.edits = 0; // counts changes of rows; rows requested earlier are requested again
    this.windows = new Map(); // index of a window -> rows, or a promise of them
    // the query of the list, and the version of the studio's answer
    this.shown = { parameters: new URLSearchParams(), at: 0 };
  }

  /** Another list. parameters: of its query; first: the answer with its first window. */
  begin(parameters, first) {
    this.shown = { parameters, at: first.version };
    this.windows.clear();
    this.windows.set(0, first.rows);
    this.total = first.total;
  }

  /** The row at an index if it is loaded, else undefined. */
  known(place) {
    return this.windows.get(Math.floor(place / kWindow))?.[place % kWindow];
  }

  /** The row at an index, or null; requests its window if necessary. */
  at(place) {
    const at = Math.floor(place / kWindow);
    if (!this.windows.has(at)) this.ask(at);
    return this.known(place) ?? null;
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
        this.events.arrived();
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
    const [first, end] = this.events.inSight(),
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
      const row = this.known(place);
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

  find(id) {
    for (const [at, rows] of this.windows) {
      const i = Array.isArray(rows) ? rows.findIndex((row) => row.id === id) : -1;
      if (i >= 0) return { place: at * kWindow + i, row: rows[i] };
    }
    return undefined;
  }

  /** The row at an index that is being loaded. */
  async coming(place) {
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
  }

  /** id -> trim of the clips that are loaded and trimmed. */
  trims() {
    return new Map([...this.windows.values()].filter(Array.isArray).flat().filter((row) =>
        row.trim).map((row) => [row.id, row.trim]));
  }

  /** The next place with the same outcome, to which a decision leads; -1: none. A row that is not loaded counts as
   * such. */
  placeAfter(place) {
    const end = this.known(place)?.end;
    for (let at = place + 1; at < this.total; ++at) {
      const row = this.known(at);
      if (!row || !end || row.end === end) return at;
    }
    return -1;
  }

  /** The id of the clip there, or that of the clip itself if there is none, or the view does not have it. */
  async idAfter(id) {
    const place = this.find(id)?.place ?? (await get("/api/place", this.inList({ id }))).place;
    const next = place < 0 ? -1 : this.placeAfter(place);
    return next < 0 ? id : (this.at(next) ?? await this.coming(next)).id;
  }
}
