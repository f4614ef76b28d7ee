// The condition `where` of the view, the view as a line of a run file, and saved views.
import { get, post } from "./api.js";
import { make } from "./elements.js";
import { element } from "./status.js";

const kListed = "A search, a decision or an outcome is no fact that a run file knows, so this lists the clips of the " +
    "view, which meet its other conditions now.";

export class Views {
  /** change(toFirst, waits): the query has changed; a promise. */
  constructor(query, change, { say, failed }) {
    Object.assign(this, { query, change, say, failed });
    this.input = element("where");
    this.input.addEventListener("change", () => this.apply(this.input.value.trim()));
    element("copy-where").addEventListener("click", () => this.copy().catch(failed));
    element("save-view").addEventListener("submit", (event) => {
      event.preventDefault();
      this.save(element("view-name").value.trim()).catch(failed);
    });
    element("where-dialog").addEventListener("close", () => element("copy-where").focus());
  }

  /** The query may have another condition, and the saved views may be others. */
  show(views = this.views ?? []) {
    if (document.activeElement !== this.input && !this.input.getAttribute("aria-invalid"))
      this.input.value = this.query.where;
    const text = JSON.stringify(views);
    if (text === this.text) return;
    Object.assign(this, { views, text });
    element("saved-views").replaceChildren(
      ...views.map((view) =>
        make("li", {}, make("button", { type: "button", title: view.where, onclick: () => this.open(view) }, view.name),
            make("button", { type: "button", "aria-label": `Remove the view ${view.name}`,
            onclick: () => this.remove(view).catch(this.failed) }, "×")),
      ),
    );
  }

  /** A condition that cannot be read leaves the view as it is; its text stays, with what is wrong and where. */
  async apply(where) {
    const before = this.query.where;
    this.query.where = where;
    try {
      await this.change(false, true);
      this.wrong("");
    } catch (error) {
      if (error.name === "AbortError") return;
      this.query.where = before;
      if (!error.message.startsWith("where: ")) return this.failed(error);
      this.wrong(error.message.slice("where: ".length));
    }
  }

  wrong(text) {
    element("where-error").textContent = text;
    if (text) this.input.setAttribute("aria-invalid", "true");
    else this.input.removeAttribute("aria-invalid");
    const column = /^column (\d+)/.exec(text)?.[1];
    if (column && document.activeElement === this.input) this.input.setSelectionRange(column - 1, column);
  }

  async copy() {
    const { where } = await get("/api/where", this.query.parameters());
    if (!where) return this.say("The view has every clip, so a run file needs no condition");
    element("where-text").value = where;
    element("where-note").textContent = where.startsWith('where = "key in [') ? kListed : "";
    element("where-dialog").showModal();
    element("where-text").select();
    // else the user copies the selected text
    await navigator.clipboard?.writeText(where).then(() => this.say("Copied"), () => {});
  }

  async save(name) {
    if (!name) return;
    const { where } = await get("/api/where", this.query.parameters()).catch(() => ({ where: "" }));
    this.show(await post("/api/view", { name, view: this.query.parameters().toString(), where }));
    element("view-name").value = "";
    this.say(`Saved: ${name}`);
  }

  async remove({ name }) {
    this.show(await post("/api/view", { name, view: null }));
    this.say(`Removed: ${name}`);
    element("view-name").focus();
  }

  open({ view }) {
    this.query.read(new URLSearchParams(view));
    this.wrong("");
    this.input.value = this.query.where;
    this.change(true).catch(this.failed);
  }
}
