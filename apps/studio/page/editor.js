// The caption of the selected clip: Enter saves, Escape leaves. What was typed and not saved is there again.
import { make } from "./format.js";

export class Editor {
  constructor(save, left) {
    this.save = save;
    this.left = left;
    this.drafts = new Map(); // id -> text
    this.area = make("textarea", { id: "caption", spellcheck: true, onkeydown: (event) => this.key(event), oninput: () => this.typed() });
    this.by = make("span", { class: "muted" });
    this.element = make("div", {}, make("div", { class: "title" }, make("h3", {}, make("label", { htmlFor: "caption" }, "Caption")), this.by), this.area);
  }

  show(clip) {
    const isTyping = this.isOpen() && this.id === clip.id;
    this.id = clip.id;
    this.saved = clip.caption;
    this.author = clip.captioned ? clip.history.findLast((edit) => edit.set.caption !== undefined)?.author : clip.facts?.caption?.by ?? clip.facts?.caption_by;
    if (!isTyping) this.reset(); // else it would change under the user's hands
  }

  reset() {
    this.area.value = this.saved;
    this.by.textContent = this.drafts.has(this.id) ? "a draft is kept: e goes on with it" : this.author ? `by ${this.author}` : "";
  }

  isOpen() {
    return document.activeElement === this.area;
  }

  open() {
    if (this.drafts.has(this.id)) this.area.value = this.drafts.get(this.id);
    this.area.focus();
    this.area.setSelectionRange(this.area.value.length, this.area.value.length);
    this.typed();
  }

  typed() {
    const differs = this.area.value !== this.saved;
    if (differs) this.drafts.set(this.id, this.area.value);
    else this.drafts.delete(this.id);
    this.by.textContent = differs ? "not saved: Enter saves, Escape leaves" : this.author ? `by ${this.author}` : "";
  }

  async key(event) {
    event.stopPropagation();
    if (event.isComposing) return;
    if (event.key === "Escape") {
      event.preventDefault();
      this.left();
      this.reset();
    } else if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      const id = this.id;
      if (await this.save(id, this.area.value)) {
        this.drafts.delete(id);
        this.left();
        if (this.id === id) this.reset(); // show() left it alone while it was typed in
      }
    }
  }
}
