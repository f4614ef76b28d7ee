// The caption of the selected clip: Enter saves, Escape leaves. Unsaved text is kept as a draft.
import { make } from "./elements.js";

export class Editor {
  constructor(save, left) {
    this.save = save;
    this.left = left;
    this.drafts = new Map(); // id -> text
    this.sent = new Map(); // id -> text that is being saved
    this.area = make("textarea",
        { id: "caption", spellcheck: true, onkeydown: (event) => this.key(event), oninput: () => this.typed() });
    this.by = make("span", { class: "muted" });
    this.element = make("div", {},
        make("div", { class: "title" }, make("h3", {}, make("label", { htmlFor: "caption" }, "Caption")), this.by),
        this.area);
    this.id = ""; // "" while the selected clip is being loaded; its caption, `saved`, is undefined until then
  }

  /** Shows a clip, its row, or {id} alone. Text that has the focus, or was typed while the caption was loading, stays.
   * isExpected: this is the clip that was being loaded. */
  show(clip, isExpected = false) {
    const isSame = clip.id === this.id;
    if (this.isWriting() && !isSame) return; // ignores a late answer
    const came = this.saved === undefined && (isSame || (isExpected && !this.id));
    this.id = clip.id;
    this.saved = this.sent.get(clip.id) ?? clip.caption;
    if (came) this.seen = this.saved;
    this.author = clip.captioned ? clip.history?.findLast((edit) => edit.set.caption !== undefined)?.author
        : clip.facts?.caption?.by ?? clip.facts?.caption_by;
    if (came && this.area.value) this.typed();
    else if (came && this.isOpen()) this.open(this.wantsAll);
    else if (!isSame || !this.isOpen()) this.reset(); // never changes text while the user edits it
  }

  reset() {
    this.seen = this.saved; // what the user has seen before writing
    this.area.value = this.saved ?? "";
    this.area.placeholder = this.saved === undefined ? "The caption is loading; what you type replaces it" : "";
    this.by.textContent = this.drafts.has(this.id) ? "unsaved draft; press e to continue" : this.author
        ? `by ${this.author}` : "";
  }

  isOpen() {
    return document.activeElement === this.area;
  }

  /** Whether the user is editing the caption of a loaded clip. */
  isWriting() {
    return this.isOpen() && this.id !== "";
  }

  open(isAll = false) {
    this.wantsAll = isAll;
    this.seen = this.saved;
    if (this.saved !== undefined) this.area.value = this.drafts.get(this.id) ?? this.saved;
    this.area.focus();
    this.area.setSelectionRange(isAll ? 0 : this.area.value.length, this.area.value.length);
    this.typed();
  }

  typed() {
    if (this.saved === undefined) return;
    const differs = this.area.value !== this.saved;
    if (differs) this.drafts.set(this.id, this.area.value);
    else this.drafts.delete(this.id);
    this.by.textContent = differs ? "not saved: Enter saves, Escape leaves" : this.author ? `by ${this.author}` : "";
  }

  async key(event) {
    event.stopPropagation();
    if (event.isComposing) return;
    // applies also to a caption that arrives after the key
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "a") this.wantsAll = true;
    if (event.key === "Escape" || (event.key === "Enter" && this.saved === undefined && !this.area.value)) {
      event.preventDefault();
      this.left();
      this.reset();
    } else if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      await this.send(this.id, this.area.value);
    }
  }

  /** Saves the text. The keys return to the sheet at once; if saving fails, the text becomes a draft. */
  async send(id, text) {
    this.drafts.delete(id);
    this.sent.set(id, text);
    const saving = this.save(id, text, this.seen);
    this.by.textContent = "being saved";
    this.left();
    const isSaved = await saving;
    if (this.sent.get(id) === text) this.sent.delete(id);
    if (!isSaved && id) this.drafts.set(id, text);
    if (this.id === id && !this.isOpen()) isSaved ? this.reset() : this.typed();
  }
}
