// What the next video is to be: a prompt or shots, its settings, and what it begins with.
import { create } from "./api.js";
import { make } from "./elements.js";
import { beginning, loraOf } from "./settings.js";
import { number } from "./words.js";

const kTexts = ["prompt", "negative_prompt", "model", "lora", "size"];
const kNumbers = ["seconds", "fps", "steps", "seed", "guidance_scale"];

export class Form {
  #models = [];
  #isSending = false;

  /** made: called with the video that the server has accepted; say: tells the user. */
  constructor(form, shots, { made, say }) {
    Object.assign(this, { form, shots, made, say, fields: form.elements, problem: form.querySelector("#problem") });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send();
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
    });
    this.fields.model.addEventListener("change", () => this.#showDefaults());
    for (const one of this.fields.kind) one.addEventListener("change", () => this.#changeKind());
    form.querySelector("#add-shot").addEventListener("click", () => {
      shots.add();
      shots.focus(shots.value.length - 1);
    });
    form.querySelector("#no-file").addEventListener("click", () => this.beginWith());
    this.fields.input_reference.addEventListener("change", () => this.#showFile());
    this.#changeKind();
    this.#showFile();
  }

  /** models: of GET /v1/models. */
  setModels(models) {
    this.#models = models;
    choices(this.fields.model, models.map(({ id }) => [id, id]));
    this.#showDefaults();
  }

  /** Takes the settings of a video. */
  reuse(video) {
    const frames = video.num_frames / video.fps;
    // Rounded down: the server rounds up to whole frames.
    const values = { ...video, lora: loraOf(video), seconds: frames > 0 ? Math.floor(frames * 1e4) / 1e4 : "" };
    this.fields.model.value = video.model;
    this.#showDefaults(); // the model's LoRAs can be chosen then
    for (const name of [...kTexts, ...kNumbers]) this.fields[name].value = values[name] ?? "";
    this.shots.set(video.shots ?? []);
    this.fields.kind.value = video.shots ? "shots" : "prompt";
    this.#changeKind();
    this.beginWith();
    this.focus();
    this.say(video.input_reference ? `Settings taken; choose the ${beginning(video)} that it begins with again`
        : "Settings taken");
  }

  /** file: a picture to begin with, or a video to continue; without one: neither. */
  beginWith(file) {
    const all = new DataTransfer();
    if (file) all.items.add(file);
    this.fields.input_reference.files = all.files;
    this.#showFile();
  }

  focus() {
    this.hasShots ? this.shots.focus(0) : this.fields.prompt.focus();
  }

  get hasShots() {
    return this.fields.kind.value === "shots";
  }

  #changeKind() {
    const { hasShots } = this, { prompt } = this.fields, box = this.form.querySelector("#shots");
    if (hasShots && !this.shots.value.length) this.shots.add(prompt.value);
    this.form.querySelector("#one").hidden = hasShots;
    box.hidden = box.disabled = !hasShots; // what is disabled is not checked
    this.fields.seconds.closest("label").hidden = hasShots;
  }

  #showFile() {
    this.form.querySelector("#no-file").hidden = !this.fields.input_reference.files.length;
  }

  /** What the chosen model has. */
  #showDefaults() {
    const { defaults, loras = [], shots = true } = this.#models.find(({ id }) => id === this.fields.model.value) ?? {};
    choices(this.fields.lora, [["", "none"], ...loras.map((name) => [name, name])]);
    this.form.querySelector("#kinds").hidden = !shots;
    if (!shots && this.hasShots) {
      this.fields.kind.value = "prompt";
      this.#changeKind();
    }
    if (!defaults) return;
    const { width, height, num_frames: frames, fps, guidance_scale: guidance } = defaults;
    this.fields.size.placeholder = `${width}x${height}`;
    this.fields.seconds.placeholder = fps > 0 ? number(frames / fps) : "";
    this.fields.fps.placeholder = number(fps);
    this.fields.guidance_scale.placeholder = number(guidance);
  }

  #values() {
    const out = {};
    for (const name of [...kTexts, ...kNumbers]) {
      const text = this.fields[name].value.trim();
      if (text !== "") out[name] = kNumbers.includes(name) ? Number(text) : text;
    }
    if (!this.hasShots) return out;
    const { prompt, seconds, ...others } = out;
    return { ...others, shots: this.shots.value };
  }

  async #send() {
    if (this.#isSending) return;
    this.#isSending = true;
    this.#explain(null);
    try {
      this.made(await create(this.#values(), this.fields.input_reference.files[0]));
    } catch (error) {
      this.#explain(error);
    } finally {
      this.#isSending = false;
    }
  }

  /** error: what the server refused; null: nothing. */
  #explain(error) {
    this.form.querySelectorAll("[aria-invalid]").forEach((one) => one.removeAttribute("aria-invalid"));
    this.problem.textContent = error?.message ?? "";
    const field = error?.param && this.form.querySelector(`[name="${CSS.escape(error.param)}"]`);
    field?.setAttribute?.("aria-invalid", "true");
    field?.focus?.();
  }
}

/** Makes [[value, text], ...] what can be chosen, and keeps the choice; fewer than two are no choice. */
function choices(select, all) {
  const before = select.value;
  select.replaceChildren(...all.map(([value, text]) => make("option", { value }, text)));
  if (all.some(([value]) => value === before)) select.value = before;
  select.closest("label").hidden = all.length < 2;
}
