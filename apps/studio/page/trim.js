// Trims the ends of a clip at the player's time. The stored clip stays whole: shards contain what is left.
import { percent } from "./charts.js";
import { make, styled } from "./elements.js";
import { number, seconds } from "./format.js";

const framesOf = ({ facts, duration_s: duration, fps }) => facts?.frames ?? Math.round((duration ?? 0) * (fps ?? 0));

const canTrim = (clip) => clip.stored && clip.media === "clip" && !clip.is_picture && clip.fps > 0
    && framesOf(clip) > 1;

/** [first, end): the frames of the clip that shards contain. */
const partOf = (clip) => clip.trim ?? [0, framesOf(clip)];

export class Trimming {
  /** detail: the selected clip, with its player. The page sets say(text, isError) and keep(id, trim, what), which
   * promises whether it was saved. */
  constructor(detail) {
    this.detail = detail;
    const button = (text, key, onclick) => make("button", { type: "button", onclick }, text,
        make("span", { class: "hint" }, key && ` (${key})`));
    this.part = make("div", { class: "part" }, make("i"));
    this.text = make("span", { class: "muted" });
    this.whole = button("Whole clip", "", () => this.save([0, framesOf(this.detail.clip)]));
    this.element = make("div", { class: "trim", role: "group", "aria-label": "Trim" }, this.part,
        make("div", { class: "row" }, button("Starts here", "[", () => this.first()),
        button("Ends here", "]", () => this.last()), this.whole, this.text));
  }

  show(clip) {
    if (!canTrim(clip)) return this.element.remove();
    const frames = framesOf(clip), [first, end] = partOf(clip), isTrimmed = end - first < frames;
    this.detail.screen.append(this.element); // hidden with it while another clip is loading
    this.part.hidden = this.whole.hidden = !isTrimmed;
    styled(this.part.firstChild, { "margin-left": percent(first / frames), width: percent((end - first) / frames) });
    const length = `${seconds((end - first) / clip.fps)} of ${seconds(frames / clip.fps)}`;
    this.text.textContent = isTrimmed ? `${length}: frames ${number(first)} to ${number(end - 1)}` : "";
  }

  /** The clip begins with the frame that is shown. */
  first() {
    this.trim((frame, [, end], frames) => [frame, frame < end ? end : frames]);
  }

  /** The clip ends with the frame that is shown. */
  last() {
    this.trim((frame, [first]) => [frame >= first ? first : 0, frame + 1]);
  }

  trim(partAt) {
    const { clip, wanted } = this.detail;
    if (clip?.id !== wanted) return this.say("The clip is not loaded yet");
    if (!canTrim(clip)) return this.say(`${clip.key} cannot be trimmed: its video is not stored`, true);
    const frames = framesOf(clip), frame = Math.min(Math.max(this.detail.frame(), 0), frames - 1);
    this.save(partAt(frame, partOf(clip), frames));
  }

  /** The next key may come before the answer, and is for what this one leaves. */
  async save(part) {
    const { clip } = this.detail, isWhole = part[1] - part[0] === framesOf(clip);
    const what = isWhole ? "Not trimmed" : `Trimmed to ${seconds((part[1] - part[0]) / clip.fps)}`;
    clip.trim = part;
    this.show(clip);
    if (!await this.keep(clip.id, part, what) && this.detail.wanted === clip.id) await this.detail.show(clip.id);
  }
}
