// How far the review is: a counter that leads to the next clip without a decision, and at the end what to type next.
import { make } from "./elements.js";
import { element } from "./status.js";

export class Review {
  /** next(): selects the next clip to review; say(text). */
  constructor({ next, say }) {
    Object.assign(this, { say, counter: element("reviewed"), end: element("review-end"), text: "", left: 0 });
    this.counter.addEventListener("click", next);
  }

  /** review: of /api/state. */
  show({ all, accepted, rejected, run_file: file, out }) {
    const done = accepted + rejected, count = (n) => n.toLocaleString("en");
    this.left = all - done; // clips without a decision
    this.counter.hidden = !all;
    this.counter.textContent = `${count(done)} of ${count(all)} reviewed`;
    const isDone = all > 0 && done >= all;
    const text = isDone ? `All reviewed: ${count(accepted)} accepted, ${count(rejected)} rejected; pack now: ` : "";
    const words = ["kinora run ", file ? quoted(file) : "FILE", " --out ", quoted(out)], command = words.join("");
    if (this.text === text + command) return;
    this.text = text + command;
    this.end.hidden = !isDone;
    const copy = make("button", { type: "button", onclick: () => this.copy(command) }, "Copy");
    const code = make("code", {}, words.map((word) => make("span", {}, word)));
    this.end.replaceChildren(...(isDone ? [text, code, " ", copy] : []));
  }

  async copy(command) {
    await navigator.clipboard?.writeText(command).then(() => this.say("Copied"), () => this.say(command))
        ?? this.say(command);
  }
}

/** A path as a shell takes it. */
const quoted = (path) => (/^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`);
