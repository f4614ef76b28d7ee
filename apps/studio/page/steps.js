// From clip to clip: to a neighbour, to the next one to decide about, to the one that a copy is of.
import { get } from "./api.js";
import { say } from "./status.js";

export class Steps {
  constructor({ sheet, timeline, detail, actions, review }) {
    Object.assign(this, { sheet, timeline, detail, actions, review, isReviewing: false });
  }

  /** By so many places of the view. */
  move(by) {
    this.sheet.select((this.sheet.selected < 0 ? -1 : this.sheet.selected) + by);
  }

  /** By so many clips of the source video. */
  neighbour(step) {
    this.sheet.selectComing(this.sheet.chosen.then(({ id }) => this.timeline.beside(id, step)));
  }

  playNext() {
    this.detail.playsNext = !matchMedia("(prefers-reduced-motion: reduce)").matches;
  }

  /** From a clip that is decided about to the next one, which plays; the promise of it, or null if there is none. */
  goOn() {
    const { chosen, selectedId, selected, rows } = this.sheet, isPlaced = Boolean(selectedId) && selected >= 0;
    const place = isPlaced ? rows.placeAfter(selected) : -1;
    if (isPlaced && place < 0) return null;
    this.playNext();
    if (isPlaced) this.sheet.select(place);
    // else the clip or its place is still being loaded
    else this.sheet.selectComing(chosen.then(({ id }) => this.sheet.rows.idAfter(id)));
    return this.sheet.chosen;
  }

  /** The next clip of the view, at first the selected one itself, that is kept and has no decision, once the decisions
   * of earlier keys are saved. */
  toReview() {
    const { chosen, selected } = this.sheet, from = selected + (this.isReviewing ? 1 : 0);
    this.isReviewing = true;
    this.playNext();
    const next = this.actions.turns.then(() => get("/api/next", this.sheet.rows.inList({ from })));
    this.sheet.selectComing(next.then(async ({ id }) => {
      const { left } = this.review;
      if (!id) say(`All clips of this view are reviewed${left ? `; ${left} others are not` : ""}`);
      return id || (await chosen)?.id;
    }));
  }

  /** The clip that the selected one is a copy of. */
  original() {
    const row = this.sheet.selectedRow();
    if (row && !row.copy_id) return say(`${row.key} is not a copy`);
    const whole = this.sheet.chosen.then((chosen) => this.actions.whole(chosen));
    this.sheet.selectComing(whole.then((clip) => clip.copy_id || clip.id));
  }
}
