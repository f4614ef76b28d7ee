// The keys of the page, and what each of them does.
import { showKeys } from "./dialogs.js";
import { element, say } from "./status.js";

/** Keys that take the focus to another clip; with Shift they select the clips on the way. */
function movesOf({ sheet, steps }) {
  return {
    j: () => steps.move(1), k: () => steps.move(-1), ArrowRight: () => steps.move(1), ArrowLeft: () => steps.move(-1),
    ArrowDown: () => steps.move(sheet.columns),
    ArrowUp: () => sheet.select(Math.max(sheet.selected - sheet.columns, sheet.selected % sheet.columns)),
    PageDown: () => steps.move(sheet.page()), PageUp: () => steps.move(-sheet.page()), Home: () => sheet.select(0),
    End: () => sheet.select(sheet.total - 1),
  };
}

function actionsOf({ actions, detail, editor, panes, search, selection, steps, view }, moves) {
  const byKey = {
    ...moves,
    " ": () => detail.toggle(), ",": () => detail.step(-1), ".": () => detail.step(1),
    "[": () => detail.trimming.first(), "]": () => detail.trimming.last(), "{": () => steps.neighbour(-1),
    "}": () => steps.neighbour(1),
    s: () => selection.toggle(), i: () => selection.invert(), J: () => selection.extend(moves.j),
    K: () => selection.extend(moves.k),
    e: () => (panes.openDetail(), editor.open()), a: () => actions.accept(), x: () => actions.reject(),
    t: () => actions.tag(), r: () => actions.rejectNow(), n: () => steps.toReview(),
    u: () => actions.step("/api/undo", "Undone"), U: () => actions.step("/api/redo", "Redone"),
    m: view.alike, o: () => steps.original(), b: view.compareCopies, c: view.showCopies, w: () => search.byWords(),
    v: () => panes.showMap(), "+": () => panes.resizeBy(1), "=": () => panes.resizeBy(1), "-": () => panes.resizeBy(-1),
    "/": () => element("text").focus(), "?": showKeys, f: () => panes.toFilters(),
    Enter: () => (panes.openDetail(), element("detail").focus()),
  };
  for (let n = 1; n <= 9; ++n) byKey[n] = () => actions.toggleTag(n - 1);
  return byKey;
}

export class Keys {
  /** parts: the parts of the page by their names; view: {alike(), compareCopies(), showCopies()}. */
  constructor(parts) {
    const { sheet, selection, panes, search } = parts, moves = movesOf(parts);
    Object.assign(this, { sheet, selection, panes, search, moves, actions: actionsOf(parts, moves) });
    document.addEventListener("keydown", (event) => this.pressed(event));
  }

  /** What a key does, for a button that does the same. */
  press(key) {
    this.actions[key]();
  }

  /** Back to the clips; from there, no clip is selected any more; and from there, the search ends. */
  escape() {
    const { panes, selection } = this, isBack = panes.isAtClips();
    panes.openFilters(false);
    panes.closeDetail();
    if (isBack && !selection.ids.size && selection.isSettled()) this.search.end();
    else if (isBack) selection.clear();
  }

  pressed(event) {
    if (event.altKey || document.querySelector("dialog[open]")) return;
    const at = event.target, isWritten = at.closest("input, textarea, select");
    const { sheet, selection, moves } = this;
    if (event.ctrlKey || event.metaKey) {
      if (isWritten || event.key !== "a") return;
      event.preventDefault();
      return selection.all();
    }
    if (event.key === "Escape") {
      event.preventDefault();
      return this.escape();
    }
    if (isWritten) return;
    if (at.closest("button, summary, a") && (event.key === "Enter" || event.key === " ")) return;
    const move = event.shiftKey && moves[event.key], action = move ? () => selection.extend(move)
        : this.actions[event.key];
    if (!action) return;
    event.preventDefault();
    if ((sheet.total && sheet.chosen) || "/?fwcuU".includes(event.key)) action();
    else if (/^[axrntbemo1-9]$/.test(event.key)) say("No clip is selected: the view is empty");
  }
}
