// The two dialogs. The browser keeps the focus in an open <dialog> and gives it back; Escape closes.
import { make } from "./format.js";

const kKeys = [
  ["j / k, arrows", "next and previous clip"], ["PageDown / PageUp, Home / End", "further"], ["Space", "play, pause"],
  [", / .", "a frame back, a frame on (arrows in the player)"], ["e", "edit the caption: Enter saves, Shift+Enter makes a line, Escape leaves"],
  ["a", "accept"], ["x", "reject, with a reason"], ["u / Shift+U", "undo, redo"], ["[ / ]", "previous and next shot of the film"],
  ["m", "more clips like this one"], ["c", "copies too, or without them"], ["o", "the clip that this is a copy of"], ["/", "search"], ["w", "search by meaning, or by words"], ["f", "filters: Tab goes on, arrows go from bar to bar, Enter takes a bar, Shift+Enter more of them"], ["Escape", "back to the clips"], ["?", "these keys"],
];

export function showKeys() {
  const dialog = document.getElementById("keys-dialog");
  document.getElementById("key-list").replaceChildren(
    ...kKeys.flatMap(([keys, what]) => [make("dt", {}, keys.split(/( \/ |(?<=\w), )/).map((part) => (/^( \/ |, )$/.test(part) ? part : make("kbd", {}, part)))), make("dd", {}, what)]),
  );
  dialog.showModal();
}

/** The reason, "" included, or null if the user changed their mind. */
export function askReason(clip, reasons) {
  const dialog = document.getElementById("reject-dialog"), input = document.getElementById("reason");
  document.getElementById("reject-title").textContent = `Reject ${clip.key}`;
  document.getElementById("reasons").replaceChildren(...reasons.map((value) => make("option", { value })));
  input.value = clip.reason_now ?? "";
  dialog.returnValue = "cancel";
  dialog.querySelector(".cancel").onclick = () => dialog.close("cancel");
  dialog.showModal();
  input.select();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "ok" ? input.value : null), { once: true }));
}
