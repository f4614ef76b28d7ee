// The two dialogs. The browser keeps the focus inside an open <dialog> and returns it afterwards; Escape closes.
import { make } from "./elements.js";
import { copiesOf, keyOf } from "./format.js";

const kKeys = [
  ["j / k, arrows", "next and previous clip"], ["PageDown / PageUp, Home / End", "further"], ["Space", "play, pause"],
  [", / .", "a frame back, a frame forward (arrows in the player)"], ["e", "edit the caption: Enter saves, Shift+Enter starts a new line, Escape leaves"],
  ["a", "accept"], ["x", "reject, with a reason"], ["u / Shift+U", "undo, redo"], ["[ / ]", "previous and next shot of the video"],
  ["m", "more clips like this one"], ["c", "show or hide copies"], ["o", "the original of this copy"], ["/", "search"], ["w", "switch between search by meaning and by words"], ["f", "filters: Tab moves to the next histogram, arrows move between bars, Enter selects a bar, Shift+Enter several"], ["Escape", "back to the clips"], ["?", "this list of keys"],
];

export function showKeys() {
  const dialog = document.getElementById("keys-dialog");
  document.getElementById("key-list").replaceChildren(
    ...kKeys.flatMap(([keys, what]) => [make("dt", {}, keys.split(/( \/ |(?<=\w), )/).map((part) => (/^( \/ |, )$/.test(part) ? part : make("kbd", {}, part)))), make("dd", {}, what)]),
  );
  dialog.showModal();
}

/** {reason, copies: ids of the copies to reject too}, or null if the user cancelled. row: of the clip, if known;
 * coming: a promise of the clip, whose reason never replaces text that was typed meanwhile. */
export function askReason(row, coming, reasons) {
  const dialog = document.getElementById("reject-dialog"), input = document.getElementById("reason");
  const copies = document.getElementById("its-copies"), withCopies = document.getElementById("with-copies");
  let clip;
  const tell = (known) => {
    clip = known;
    document.getElementById("reject-title").textContent = `Reject ${clip?.key ?? "…"}`;
    copies.hidden = !clip?.copies?.length;
    document.getElementById("which-copies").textContent = clip ? `Reject its ${copiesOf(clip)} too: ${clip.copies.map(keyOf).join(", ")}. Otherwise ${clip.copies.length > 1 ? "one of them" : "it"} takes its place in shards.` : "";
    input.value = clip?.reason_now ?? "";
  };
  document.getElementById("reasons").replaceChildren(...reasons.map((value) => make("option", { value })));
  tell(row);
  withCopies.checked = false;
  dialog.querySelector(".cancel").onclick = () => dialog.close("cancel");
  dialog.showModal();
  input.select();
  askReason.asked?.(null); // of a dialog whose end the browser has not told yet
  return new Promise((resolve) => {
    askReason.asked = resolve;
    if (!row)
      coming.then((known) => {
        const { value } = input;
        if (askReason.asked !== resolve || !dialog.open) return;
        tell(known);
        if (value) input.value = value;
      }, () => {});
    dialog.querySelector("form").onsubmit = () => resolve({ reason: input.value, copies: withCopies.checked ? clip.copies : [] });
    dialog.onclose = () => dialog.open || resolve(null);
  });
}
