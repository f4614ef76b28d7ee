// The clips selected for an action, next to the focused one: a set of ids that keys and clicks change one after
// another, even while
// the rows of a range are still being loaded.
export class Selection {
  /** changed(): the set has changed. */
  constructor(sheet, changed, failed) {
    Object.assign(this, { sheet, changed, failed });
    this.ids = sheet.checked;
    this.turn = Promise.resolve();
    this.waiting = 0; // changes that are not applied yet
    this.forget();
  }

  /** The ids after all keys so far; later keys do not change them. */
  now() {
    return this.turn.then(() => [...this.ids]);
  }

  isSettled() {
    return this.waiting === 0;
  }

  forget() {
    this.anchor = this.end = -1; // indices: where a range begins, and where the last key has taken it
  }

  /** found(ids): the new ids, or a promise of them. */
  change(found) {
    ++this.waiting;
    this.turn = this.turn
      .then(() => found(this.ids))
      .then((ids) => {
        const next = [...ids]; // may be this.ids itself
        this.ids.clear();
        for (const id of next) this.ids.add(id);
      })
      .catch((error) => this.failed(error))
      .then(() => {
        --this.waiting;
        this.changed();
      });
  }

  /** Adds or removes the focused clip; a range may begin at it. */
  toggle() {
    const { chosen } = this.sheet;
    this.anchor = this.end = this.sheet.selected;
    this.change(async (ids) => {
      const { id } = await chosen;
      const next = new Set(ids);
      if (!next.delete(id)) next.add(id);
      return (this.base = next);
    });
  }

  /** Selects from where the range begins to where move() takes the focus; the range of earlier keys grows or shrinks.
   * */
  extend(move) {
    const isNew = this.anchor < 0 || this.end !== this.sheet.selected;
    if (isNew) this.anchor = Math.max(0, this.sheet.selected);
    move();
    this.end = this.sheet.selected;
    const range = Promise.resolve(this.sheet.rows.idsBetween(Math.min(this.anchor, this.end),
        Math.max(this.anchor, this.end)));
    range.catch(() => {}); // told when it is this key's turn
    this.change(async (ids) => {
      if (isNew) this.base = new Set(ids);
      return new Set([...this.base, ...(await range)]);
    });
  }

  all() {
    this.forget();
    this.change(() => this.inView());
  }

  /** Selects these, or these too. */
  take(taken, isMore) {
    this.forget();
    this.change((ids) => (isMore ? [...new Set([...ids, ...taken])] : taken));
  }

  invert() {
    this.forget();
    this.change(async (ids) => (await this.inView()).filter((id) => !ids.has(id)));
  }

  clear() {
    this.forget();
    this.change(() => []);
  }

  /** After the view has been loaded again: clips that it does not show any more are not selected. */
  keep() {
    this.forget();
    this.change(async (ids) => (ids.size ? (await this.inView()).filter((id) => ids.has(id)) : ids));
  }

  /** The ids of the view, once it is loaded. */
  async inView() {
    await this.sheet.loading.catch(() => {});
    return this.sheet.rows.idsBetween(0, this.sheet.total - 1);
  }
}
