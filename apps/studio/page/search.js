// The search: a text, by its meaning or by its words.
import { element, failed } from "./status.js";
import { searching } from "./summary.js";

const kPause = 150; // milliseconds without a key until the text is searched for
const noKeyboard = matchMedia("(max-width: 760px), (hover: none)");

const searchFor = (isByMeaning) =>
    (isByMeaning ? "Search by meaning" : "Search captions") + (noKeyboard.matches ? "" : "  ( / )");

export class Search {
  /** change(toFirst): the query has changed; a promise. toClips(): gives the clips the focus. */
  constructor(query, change, toClips) {
    Object.assign(this, { query, change, timer: 0 });
    element("search").addEventListener("submit", (event) => {
      event.preventDefault();
      toClips();
    });
    element("text").addEventListener("input", () => {
      clearTimeout(this.timer);
      searching();
      this.timer = setTimeout(() => this.now(), kPause);
    });
    element("text").addEventListener("blur", () => this.now()); // so that the keys that follow act on the results
    element("how").addEventListener("click", () => this.byWords());
  }

  now() {
    if (!this.timer) return;
    clearTimeout(this.timer);
    this.timer = 0;
    this.query.search({ text: element("text").value.trim() });
    this.change(true).catch(failed);
  }

  byWords(words = !this.query.words) {
    if (element("how").hidden) return;
    this.query.words = words;
    element("how").setAttribute("aria-pressed", words);
    element("text").placeholder = searchFor(!words);
    if (this.query.text) this.change(true).catch(failed);
  }

  end() {
    if (!this.query.text && !this.query.like) return;
    this.query.search({});
    this.change().catch(failed);
  }

  /** hasMeaning: texts have embeddings. */
  offer(hasMeaning) {
    element("how").hidden = !hasMeaning;
    element("text").placeholder = searchFor(hasMeaning && !this.query.words);
  }

  /** The query may have changed. */
  show() {
    if (element("text").value.trim() !== this.query.text) element("text").value = this.query.text;
    element("how").setAttribute("aria-pressed", this.query.words);
  }
}
