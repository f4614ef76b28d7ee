// The clips' pictures for the contact sheet: decoded, those in sight first, as many as are kept.
import { address } from "./api.js";

const kPictures = 400; // decoded pictures kept
const kFetches = 4; // concurrent requests: a browser has six connections

export class Pictures {
  #arrived;
  // id -> {bitmap: an ImageBitmap, null if there is none, undefined until known; tag; round}
  #known = new Map();
  #round = 0; // pictures of an earlier round are requested again
  #wanted = [];
  #fetching = 0;

  /** arrived: called with the id and the bitmap of a picture that is new, null if there is none. */
  constructor(arrived) {
    this.#arrived = arrived;
  }

  /** The bitmap; null: there is none; undefined: it is not known yet. */
  of(id) {
    return this.#known.get(id)?.bitmap;
  }

  /** ids: of the clips in sight; those of earlier calls are not requested any more. */
  want(ids) {
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

  #keep(id, bitmap, tag) {
    const old = this.of(id);
    this.#known.delete(id);
    this.#known.set(id, { bitmap, tag, round: this.#round }); // now the most recent
    if (old === bitmap) return;
    old?.close();
    for (const [other, picture] of this.#known) {
      if (this.#known.size <= kPictures) break;
      picture.bitmap?.close();
      this.#known.delete(other);
    }
    this.#arrived(id, bitmap);
  }
}
