// The dialogs that ask. The browser keeps the focus inside an open <dialog> and returns it afterwards; Escape closes.
import { make } from "./elements.js";
import { keyOf, plural } from "./format.js";
import { element } from "./status.js";

const kKeys = [
  ["j / k, arrows", "next and previous clip"], ["PageDown / PageUp", "a page on, a page back"],
  ["Home / End", "the first clip, the last clip"], ["Space", "play, pause"],
  [", / .", "a frame back, a frame forward (arrows in the player)"],
  ["e", "edit the caption: Enter saves, Shift+Enter starts a new line, Escape leaves"],
  ["s", "select or unselect the clip (or Ctrl+click)"], ["Shift+arrows, J / K", "select a range (or Shift+click)"],
  ["Ctrl+A", "select all of the view"], ["i", "invert the selection"],
  ["a", "accept, and go on to the next clip; all selected clips, if some are"],
  ["r", "reject without a reason, and go on"],
  ["x", "reject for a reason, and go on; all selected clips, if some are"],
  ["n", "next clip that is not reviewed"], ["t", "tag this clip, or all selected ones"],
  ["1 to 9", "add or remove the tag with that number; in the list of reasons, take that reason"],
  ["u / Shift+U", "undo, redo"], ["{ / }", "previous and next shot of the video"],
  ["[ / ]", "trim: shards contain the clip from the frame shown on, up to the frame shown"],
  ["m", "more clips like this one"], ["c", "show or hide copies"], ["o", "the clip that was kept for this copy"],
  ["b", "a copy next to the clip that was kept: there x rejects the copy for a reason, r without one, Shift+X and " +
      "Shift+R the other clip, and k keeps the copy instead; w lays one over the other, + and - zoom, 0 shows all"],
  ["/", "search"], ["v", "a map of the clips, or the list"],
  ["+ / -", "larger, smaller pictures"], ["w", "switch between search by meaning and by words"],
  ["f", "filters; again: the first histogram. Tab moves to the next one, arrows move between bars, Enter selects a " +
      "bar, Shift+Enter several"],
  ["Escape", "back to the clips; again: select none; again: end the search"],
  ["?", "this list of keys; again: close it"],
];

export function showKeys() {
  const dialog = element("keys-dialog");
  element("key-list").replaceChildren(
    ...kKeys.map(([keys, what]) => make("div", {},
        make("dt", {}, keys.split(/( \/ | to |(?<=\w), )/).map((part) =>
        (/^( \/ | to |, )$/.test(part) ? part : make("kbd", {}, part)))), make("dd", {}, what))),
  );
  dialog.onkeydown = (event) => {
    if (event.key !== "?") return;
    event.stopPropagation(); // else it opens again
    dialog.close();
  };
  dialog.showModal();
}

/** The text, or the name whose number it is. */
const named = (text, names) => (/^[1-9]$/.test(text) ? names[text - 1] ?? text : text);

/** Lists names with their numbers below an input, and marks the one whose number is typed. A click takes a name. */
function numbered(list, input, names) {
  const options = names.slice(0, 9).map((name, at) =>
    make("button", { type: "button", tabIndex: -1, onclick: () => ((input.value = name), input.form.requestSubmit()) },
        make("kbd", {}, at + 1), ` ${name}`),
  );
  const mark = () =>
      options.forEach((option, at) => option.setAttribute("aria-pressed", input.value === String(at + 1)));
  input.oninput = mark;
  mark();
  list.replaceChildren(...options);
}

/** Opens a dialog and resolves with answer() when its form is sent, else with null. An earlier question whose end the
 * browser has
 * not told yet resolves with null. */
function ask(dialog, input, answer) {
  dialog.querySelector(".cancel").onclick = () => dialog.close("cancel");
  dialog.showModal();
  input.select();
  ask.asked?.(null);
  return new Promise((resolve) => {
    ask.asked = resolve;
    dialog.querySelector("form").onsubmit = () => resolve(answer());
    dialog.onclose = () => dialog.open || resolve(null);
  });
}

/** Tells the dialog about its clips when they arrive; text that was typed meanwhile stays. */
function whenKnown(coming, input, tell) {
  const { asked } = ask, dialog = input.closest("dialog");
  coming.then((known) => {
    const { value } = input;
    if (ask.asked !== asked || !dialog.open) return;
    tell(known);
    if (value) input.value = value;
    else input.select(); // what is typed now replaces it
    input.oninput();
  }, () => {});
}

/** {reason, copies: how many copies to reject too}, or null if the user cancelled. known: the row of the clip, or
 * {count}, if it is
 * known; coming: a promise of the clip, or of {count, copies: how many, keys: the first of them, replaced: of how many
 * clips}. */
export function askReason(known, coming, reasons) {
  const input = element("reason"), withCopies = element("with-copies");
  let copies;
  const tell = (clip) => {
    const keys = clip?.keys ?? clip?.copies?.map?.(keyOf) ?? [];
    copies = (Array.isArray(clip?.copies) ? clip.copies.length : clip?.copies) ?? 0;
    element("reject-title").textContent = `Reject ${clip?.count ? plural(clip.count, "clip") : clip?.key ?? "…"}`;
    element("its-copies").hidden = !copies;
    element("reject-note").textContent = isAccepted(clip);
    element("which-copies").textContent = copies ? `${alsoReject(clip, copies, keys)} ${otherwise(clip, copies)}` : "";
    input.value = clip?.reason_now ?? "";
  };
  tell(known);
  withCopies.checked = false;
  element("reasons").replaceChildren(...reasons.map((value) => make("option", { value })));
  numbered(element("reason-list"), input, reasons);
  const answered = ask(element("reject-dialog"), input,
      () => ({ reason: named(input.value, reasons), copies: withCopies.checked ? copies : 0 }));
  whenKnown(known && !known.count ? Promise.resolve(known) : coming, input, tell);
  return answered;
}

/** Says which of the clips to reject are accepted. */
function isAccepted(clip) {
  if (!clip?.count) return clip?.decision === "accepted" ? "This clip is accepted." : "";
  return clip.accepted ? `${clip.accepted.toLocaleString("en")} of these are accepted.` : "";
}

/** keys: of the first of the copies. */
function alsoReject(clip, copies, keys) {
  const counted = copies === 1 ? "1 copy" : `${copies.toLocaleString("en")} copies`;
  const more = copies > keys.length ? ", …" : "";
  return `Reject ${clip.count ? "their" : "its"} ${counted} too: ${keys.join(", ")}${more}.`;
}

/** What happens to the copies of rejected clips that are not rejected with them. */
function otherwise(clip, copies) {
  if (!clip.count) return `Otherwise ${copies > 1 ? "one of them" : "it"} takes its place in shards.`;
  if (clip.replaced === 1) return "Otherwise a copy takes the place of 1 of these clips in shards.";
  return `Otherwise copies take the places of ${clip.replaced.toLocaleString("en")} of these clips in shards.`;
}

/** {tag, untag}, or null. coming: a promise of the clip, or of {count}. */
export function askTags(coming, names) {
  const input = element("tags");
  const tell = (clip) => {
    element("tag-title").textContent = clip?.count ? `Tag ${plural(clip.count, "clip")}` : `Tag ${clip?.key ?? "…"}`;
    element("tags-now").textContent = clip?.tags?.length ? `Now: ${clip.tags.join(", ")}` : "";
  };
  tell();
  input.value = "";
  element("tag-names").replaceChildren(...names.map((value) => make("option", { value })));
  numbered(element("tag-list"), input, names);
  const answered = ask(element("tag-dialog"), input, () => {
    const all = input.value.split(",").map((text) => text.trim()).filter(Boolean),
    isRemoved = (text) => text.startsWith("-");
    const tag = all.filter((text) => !isRemoved(text)).map((text) => named(text, names)),
    untag = all.filter(isRemoved).map((text) => named(text.slice(1).trim(), names));
    return all.length ? { tag, untag: untag.filter(Boolean) } : null;
  });
  whenKnown(coming, input, tell);
  return answered;
}
