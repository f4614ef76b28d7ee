// The actions of keys on clips: accept, reject, tag, caption, undo. An action is for the clips that were selected when
// its key was pressed, else for the clip that had the focus, whatever the page still shows. Edits are sent in the order
// of their keys.
import { get, post } from "./api.js";
import { askReason, askTags } from "./dialogs.js";
import { plural, replacedBy } from "./format.js";

const kMost = 3; // clips that a message names

export class Actions {
  /** page: {state(), seen(), say, failed, edited(answer), look(), goOn(): from a clip to the next one, whose promise it
   * returns, or null} */
  constructor(sheet, selection, detail, editor, page) {
    Object.assign(this, { sheet, selection, detail, editor, page });
    this.turns = Promise.resolve();
    this.isSending = false; // until the answer arrives, the studio's version may be that of our own edit
  }

  async send(path, body) {
    this.isSending = true;
    try {
      const answer = await post(path, body);
      this.page.edited(answer);
      return answer;
    } finally {
      this.isSending = false;
    }
  }

  inTurn(act) {
    this.turns = this.turns.then(act).catch((error) => {
      this.page.failed(error);
      return false;
    });
    return this.turns;
  }

  /** A promise of the ids that an action of now is for. */
  targets() {
    const { chosen } = this.sheet,
    ids = this.selection.now().then(async (all) => (all.length ? all : [(await chosen)?.id].filter(Boolean)));
    ids.catch(() => {}); // told when it is the action's turn
    return ids;
  }

  /** Whether an action of now is for the focused clip alone. */
  isOne() {
    return this.selection.isSettled() && !this.selection.ids.size;
  }

  /** A decision, in its turn. next: the promise of the clip to which the focus has gone on; if nothing is saved, it
   * comes back, unless the user has moved it. */
  decide(targets, next, act) {
    return this.inTurn(async () => {
      const ids = await targets;
      let isSaved = false;
      try {
        isSaved = await act(ids);
      } finally {
        if (!isSaved && next && this.sheet.chosen === next) await this.sheet.choose(ids[0]);
      }
      return isSaved;
    });
  }

  /** A whole clip. */
  async whole({ id }) {
    return this.detail.clip?.id === id ? this.detail.clip : get("/api/clip", { id });
  }

  /** True if something was saved, or nothing had to be. what: "Accepted", or a function of the answer that returns it;
   * also: added to the name of the clips, or a function of the answer that returns it. */
  async change(ids, request, what, also = "") {
    if (!ids.length) return this.page.say("No clip is selected: the view is empty", true);
    const answer = await this.send("/api/edit", { ids, seen: this.page.seen(), ...request });
    const { conflicts, unstorable, gone, changed, at_work: isAtWork } = answer;
    const left = [
      ...(unstorable ? [
          `${plural(unstorable, "clip")} cannot be accepted: nothing of ${unstorable > 1 ? "them" : "it"} is stored`]
          : []),
      ...(gone ? [`${plural(gone, "clip")} ${absent(gone, isAtWork)}`] : []),
      ...(conflicts.length ? [changedMeanwhile(conflicts)] : []),
    ];
    const name = ids.length === 1 ? answer.clip?.key ?? answer.keys[0] ?? "" : plural(changed, "clip");
    const isDone = changed > 0 || !left.length;
    const told = (text) => (typeof text === "function" ? text(answer) : text);
    this.page.say([...(isDone ? [`${told(what)}: ${name}${overruled(answer, ids.length)}${told(also)}`] : []),
        ...left].join("; "), left.length > 0);
    // so that the same key, pressed again, is a decision that knows the other
    if (conflicts.length) await this.page.look();
    return isDone;
  }

  saveCaption(id, caption, seen) {
    const { chosen } = this.sheet;
    return this.inTurn(async () => this.change([id || (await chosen)?.id].filter(Boolean),
        { set: { caption }, caption_seen: seen }, "Caption saved"));
  }

  accept() {
    const targets = this.targets(), isOne = this.isOne(), isKept = isOne && this.sheet.selectedRow()?.end === "kept";
    return this.decide(targets, isOne ? this.page.goOn() : null, async (ids) => {
      const clip = ids.length === 1 && !isKept && (await this.whole({ id: ids[0] }));
      if (clip && !clip.acceptable)
        return this.page.say(`${clip.key} cannot be accepted: nothing of it is stored`, true);
      return this.change(ids, { set: { keep: true, reason: "" } }, "Accepted");
    });
  }

  /** The focused clip, without a reason; many are asked about. */
  rejectNow() {
    if (!this.isOne()) return this.reject();
    const targets = this.targets(), next = this.page.goOn();
    return this.decide(targets, next, (ids) => this.change(ids, { set: { keep: false, reason: "" } }, "Rejected",
        ({ clip }) => (clip?.copies.length ? `. ${replacedBy(clip)}` : "")));
  }

  /** A clip that the page shows besides the focused one, without a reason. */
  rejectOne(id) {
    return this.inTurn(() => this.change([id], { set: { keep: false, reason: "" } }, "Rejected"));
  }

  /** id: of one clip, else for all targets. Takes its turn when the dialog opens: the browser may deliver the next key
   * before it says that the dialog is closed. */
  reject(id) {
    const targets = id ? Promise.resolve([id]) : this.targets(),
    isOne = this.isOne(), { chosen } = this.sheet;
    const known = id ? undefined : isOne ? this.sheet.selectedRow() : this.selection.isSettled()
        ? { count: this.selection.ids.size } : undefined;
    const coming = targets.then(async (ids) =>
        (ids.length === 1 ? this.whole({ id: ids[0] })
        : { count: ids.length, ...(await post("/api/copies", { ids })) }));
    const answered = askReason(known, coming, this.page.state().reasons);
    let next = null;
    answered.then((answer) => {
      if (answer && isOne && !id && this.sheet.chosen === chosen) next = this.page.goOn();
    });
    return this.inTurn(async () => {
      const answer = await answered;
      if (!answer) return false;
      const { reason, copies } = answer, ids = await targets;
      const also = ids.length === 1 && copies ? ` and its ${copies === 1 ? "1 copy" : `${copies} copies`}` : "";
      const isSaved = await this.change(ids, { set: { keep: false, reason }, copies: copies > 0 }, "Rejected", also);
      if (!isSaved && next && this.sheet.chosen === next) await this.sheet.choose(ids[0]);
      return isSaved;
    });
  }

  /** Rejects a clip and its other copies, so that this copy takes its place. */
  keepInstead(original, copy) {
    const ids = [original.id, ...original.copies.filter((id) => id !== copy.id)];
    return this.inTurn(() => this.change(ids, { set: { keep: false, reason: "a copy is kept instead" } }, "Rejected"));
  }

  /** trim: [first, end], frames of the stored clip. */
  trim(id, trim, what) {
    return this.inTurn(() => this.change([id], { set: { trim } }, what));
  }

  tag() {
    const targets = this.targets(), { tags } = this.page.state();
    const answered =
        askTags(targets.then(async (ids) => (ids.length === 1 ? this.whole({ id: ids[0] }) : { count: ids.length })),
        tags.map(([name]) => name));
    return this.inTurn(async () => {
      const answer = await answered;
      if (!answer) return false;
      // so that its number works at once
      for (const name of answer.tag) if (!tags.some(([known]) => known === name)) tags.push([name, 1]);
      return this.change(await targets, answer, "Tagged");
    });
  }

  /** Adds the tag with a number, or removes it if all clips have it. */
  toggleTag(place) {
    const name = this.page.state().tags[place]?.[0], targets = this.targets();
    if (!name) return this.page.say(`There is no tag ${place + 1}; t adds tags`);
    return this.inTurn(async () => this.change(await targets, { toggle: [name] },
        ({ untagged }) => `${untagged.length ? "Removed" : "Tagged"} ${name}`));
  }

  untag(id, name) {
    return this.inTurn(() => this.change([id], { untag: [name] }, `Removed ${name}`));
  }

  step(path, word) {
    const { chosen } = this.sheet;
    return this.inTurn(async () => {
      const trims = this.sheet.rows.trims();
      const { clip, changed, keys, conflicts, at_work: isAtWork } = await this.send(path);
      // else the user has selected another clip since
      if (clip && this.sheet.chosen === chosen && this.sheet.selectedId !== clip.id && !this.editor.isOpen())
        await this.sheet.choose(clip.id);
      const name = changed === 1
          ? keys[0] + (clip ? "" : isAtWork ? ", which is not made again yet" : ", which no longer exists")
          : plural(changed, "clip");
      const trim = trimStep(clip, clip && trims.get(clip.id));
      this.page.say([`${word}: ${[trim, name].filter(Boolean).join(": ")}`,
          ...(conflicts.length ? [changedMeanwhile(conflicts)] : [])].join("; "), conflicts.length > 0);
      return true;
    });
  }
}

/** " (10 were accepted before)": the decisions that an edit of `count` clips has turned round. */
function overruled({ overruled: { accepted = 0, rejected = 0 } = {} }, count) {
  const parts = [[accepted, "accepted"], [rejected, "rejected"]].filter(([n]) => n);
  if (!parts.length) return "";
  const told = parts.map(([n, word]) => (count === 1 ? word : `${n} ${n === 1 ? "was" : "were"} ${word}`));
  return ` (${told.join(", ")} before)`;
}

/** Clips of an edit that the data set does not hold; at work: a running job may make them again. */
function absent(count, isAtWork) {
  if (isAtWork) return `${count > 1 ? "are" : "is"} not made again yet`;
  return count > 1 ? "no longer exist" : "no longer exists";
}

/** "2 clips were changed meanwhile by tom and stay as they are: a, b". */
function changedMeanwhile(conflicts) {
  const authors = [...new Set(conflicts.map(({ author }) => author))].join(" and ");
  if (conflicts.length === 1) {
    const [{ key, set }] = conflicts;
    return `${key} was changed meanwhile by ${authors} (${said(set)}) and stays so; the same again changes it`;
  }
  const keys = conflicts.slice(0, kMost).map(({ key }) => key).join(", ");
  const names = keys + (conflicts.length > kMost ? ", …" : "");
  return `${plural(conflicts.length, "clip")} were changed meanwhile by ${authors} and stay so: ${names}; ` +
      "the same again changes them";
}

/** The frames of a trim, the last one too, as a user counts them: "frames 5 to 134". */
const framesOf = ([first, end]) => `frames ${first} to ${end - 1}`;

/** What a step has changed of a trim: "end of the trim; still frames 5 to 134"; "" if it was no trim. before: the trim
 * that was known. */
function trimStep(clip, before) {
  const { set } = clip?.history?.at(-1) ?? {};
  if (!set || set.trim === undefined) return "";
  if (!set.trim) return "the trim; the whole clip again";
  const what = before && before[0] === set.trim[0] ? "end of the trim"
      : before && before[1] === set.trim[1] ? "start of the trim" : "the trim";
  return `${what}; ${before ? "still" : "now"} ${framesOf(set.trim)}`;
}

/** An edit in words: "rejected, “logo”". */
export function said(set) {
  const parts = [];
  if (set.keep !== undefined) parts.push(set.keep === null ? "no decision" : set.keep ? "accepted" : "rejected");
  if (set.reason) parts.push(`“${set.reason}”`);
  if (set.caption !== undefined) parts.push(set.caption === null ? "the original caption" : `caption “${set.caption}”`);
  if (set.tags !== undefined) parts.push(set.tags?.length ? `tags ${set.tags.join(", ")}` : "no tags");
  if (set.trim !== undefined) parts.push(set.trim === null ? "not trimmed" : framesOf(set.trim));
  return parts.join(", ") || "reason removed";
}
