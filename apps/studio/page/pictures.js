// The clips' pictures for the contact sheet: decoded, those in sight first, as many as are kept.
import { address } from "./api.js";

const kPictures = 400; // decoded pictures kept
const kFetches = 4; // concurrent requests: a browser has six connections
const kAgain = 30000; // milliseconds

export class Pictures {
  #arrived;
  #after;
  // id -> {bitmap: an ImageBitmap, null if there is none, undefined until known; tag; round}
  #known = new Map();
  #round = 0; // pictures of an earlier round are requested again
  #wanted = [];
  #seen = new Set(); // of the last call of want()
  #missed = new Map(); // id -> how many times there was none
  #fetching = 0;

  /** arrived: called with the id and the bitmap of a picture that is new, null if there is none; again: milliseconds
   * after which such a one is requested once more, if it is wanted; twice as many each further time. */
  constructor(arrived, again = kAgain) {
    this.#arrived = arrived;
    this.#after = again;
  }

  /** The bitmap; null: there is none; undefined: it is not known yet. */
  of(id) {
    return this.#known.get(id)?.bitmap;
  }

  /** ids: of the clips in sight; those of earlier calls are not requested any more. */
  want(ids) {
    this.#seen = new Set(ids);
    this.#wanted = ids.filter((id) => this.#known.get(id)?.round !== this.#round);
    while (this.#fetching < kFetches && this.#wanted.length) this.#fetch(this.#wanted.shift());
  }

  /** Clips may have new footage: each picture stays until its replacement has arrived. */
  renew() {
    ++this.#round;
  }

  async #fetch(id) {
    ++this.#fetching;
    const known = this.#known.get(id);
    this.#known.set(id, { ...known, round: this.#round });
    try {
      const response = await fetch(address("/picture", id), { cache: "no-cache" }); // revalidates it
      const tag = response.headers.get("ETag");
      if (response.ok && known?.bitmap && known.tag === tag) this.#keep(id, known.bitmap, tag);
      // for an animation, its first frame
      else this.#keep(id, response.ok ? await createImageBitmap(await response.blob()) : null, tag);
    } catch {
      if (known) this.#known.set(id, known); // requested again when it becomes visible
      else this.#known.delete(id);
    }
    --this.#fetching;
    if (this.#wanted.length) this.#fetch(this.#wanted.shift());
  }

  #later(id) {
    const times = this.#missed.get(id) ?? 0;
    this.#missed.set(id, times + 1);
    setTimeout(() => this.#again(id), this.#after * 2 ** times);
  }

  /** The machine may have been too busy to make it. */
  #again(id) {
    if (this.of(id) !== null) return;
    this.#known.delete(id);
    if (this.#seen.has(id)) this.want([...this.#seen]);
  }

  #keep(id, bitmap, tag) {
    const old = this.of(id);
    this.#known.delete(id);
    this.#known.set(id, { bitmap, tag, round: this.#round }); // now the most recent
    if (old === bitmap) return;
    if (!bitmap) this.#later(id);
    old?.close();
    for (const [other, picture] of this.#known) {
      if (this.#known.size <= kPictures) break;
      picture.bitmap?.close();
      this.#known.delete(other);
    }
    this.#arrived(id, bitmap);
  }
}
