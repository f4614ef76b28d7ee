// Where a map shows its clips, in pixels.

const kGap = 4; // pixels between pictures
const kColumns = 4096; // more than a plane has
const kAway = 0.07; // of the plane's diagonal, by which pictures are moved on average: more would be another map
const kSmaller = 0.85;

/** x, y: one number a clip. Both axes have one scale. margin: pixels on each side, [across, down]. */
export function placesOf(x, y, [width, height], [across, down]) {
  const range = (values) => [values.reduce((a, b) => Math.min(a, b), Infinity),
      values.reduce((a, b) => Math.max(a, b), -Infinity)];
  const [left, right] = range(x), [low, high] = range(y);
  const scale = Math.min((width - 2 * across) / (right - left || 1), (height - 2 * down) / (high - low || 1));
  return x.map((value, i) => [width / 2 + (value - (left + right) / 2) * scale,
      height / 2 - (y[i] - (low + high) / 2) * scale]);
}

/** Places pictures that do not cover each other near `at`. box: their size, at most; least: the smallest width. Returns
 * [places, box]. */
export function placed(at, box, least, size, top) {
  const out = spread(at, box, size, top), smaller = box.map((side) => side * kSmaller);
  const away = out.reduce((sum, [x, y], i) => sum + Math.hypot(x - at[i][0], y - at[i][1]), 0) / (at.length || 1);
  return away <= kAway * Math.hypot(...size) || smaller[0] < least ? [out, box] : placed(at, smaller, least, size, top);
}

/** Places boxes of one size so that none covers another: each as near to its place as those before it leave room, below
 * `top`; where it is if there is none. at: their centres. */
export function spread(at, [w, h], [width, height], top) {
  const taken = new Taken(w + kGap, h + kGap), step = h / 2, rings = Math.hypot(width, height) / step;
  const within = (value, half, all, from = 0) => Math.min(Math.max(value, from + half + 4), all - half - 4);
  return at.map(([x, y]) => {
    for (let ring = 0; ring < rings; ++ring) {
      const count = Math.max(1, Math.ceil(2 * Math.PI * ring));
      for (let n = 0; n < count; ++n) {
        const angle = (2 * Math.PI * n) / count;
        const place = [within(x + ring * step * Math.cos(angle), w / 2, width),
            within(y + ring * step * Math.sin(angle), h / 2, height, top)];
        if (taken.take(place)) return place;
      }
    }
    return [x, y];
  });
}

/** Boxes that do not overlap, by the cells of a grid of which each holds one centre at most. */
class Taken {
  #cells = new Map();

  constructor(w, h) {
    Object.assign(this, { w, h });
  }

  /** Whether a box with this centre covers none; it is one of them then. */
  take([x, y]) {
    const column = Math.floor(x / this.w), row = Math.floor(y / this.h);
    for (let r = row - 1; r <= row + 1; ++r)
      for (let c = column - 1; c <= column + 1; ++c) {
        const other = this.#cells.get(r * kColumns + c);
        if (other && Math.abs(other[0] - x) < this.w && Math.abs(other[1] - y) < this.h) return false;
      }
    this.#cells.set(row * kColumns + column, [x, y]);
    return true;
  }
}
