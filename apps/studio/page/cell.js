// A card of the sheet as elements: the picture with its marks, the name, one number and the caption.
import { isUnmatched, lengthOf, markOf, near, nothingFor, scoreOf, spoken } from "./card.js";
import { make } from "./elements.js";
import { markClass } from "./format.js";
import { cut } from "./name_cut.js";

export function makeCell() {
  const cell = make("div", { class: "cell", role: "option" });
  cell.canvas = make("canvas", { width: 320, height: 180 });
  cell.none = make("div", { class: "none" });
  cell.near = make("span", { class: "near" });
  cell.time = make("span", { class: "time" });
  cell.beyond = make("span", { class: "beyond" });
  cell.head = make("span", { class: "head" });
  cell.tail = make("span");
  cell.key = make("span", { class: "key" }, cell.head, cell.tail);
  cell.end = make("span", { class: "mark" });
  cell.scores = make("span", { class: "scores" });
  cell.caption = make("div", { class: "caption" });
  cell.append(make("div", { class: "still" }, cell.canvas, cell.none, cell.near, cell.time, cell.beyond,
      make("span", { class: "check" }), make("span", { class: "badge" })), make("div", { class: "line" }, cell.key),
      make("div", { class: "line" }, cell.end, cell.scores), cell.caption);
  return cell;
}

/** The cell shows nothing until it is filled again. */
export function freeCell(cell) {
  cell.remove();
  cell.removeAttribute("id");
  cell.row = undefined;
  cell.shown = "";
}

/** row: null while it is being loaded. bitmap: its picture. view: {shows, unmatched, room: letters of a name,
 * neighbours: names of the cards before and after, isBorder: the card before matches}. */
export function fillCell(cell, row, bitmap, view) {
  const isBeyond = isUnmatched(row, view.unmatched);
  cell.row = row;
  cell.className = `cell ${row ? `${row.end} ${row.decision}` : ""}${isBeyond ? " unmatched" : ""}`;
  nameCell(cell, row?.key ?? "", view);
  cell.none.title = row ? nothingFor(row) : "";
  cell.end.textContent = row ? markOf(row) : "";
  cell.end.className = row ? markClass(row) : "mark";
  cell.time.textContent = row ? lengthOf(row) : "";
  cell.near.textContent = row ? near(row) : "";
  cell.beyond.textContent = isBeyond && view.isBorder ? "from here on, nothing matches" : "";
  cell.caption.textContent = row ? row.caption : "";
  cell.scores.textContent = row
      ? [row.place, row.tags.map((tag) => `#${tag}`).join(" "), scoreOf(row, view.shows)].filter(Boolean).join(" · ")
      : "";
  cell.scores.title = cell.scores.textContent;
  cell.setAttribute("aria-label", row ? spoken(row, isBeyond) : "loading");
  if (bitmap) drawCell(cell, bitmap);
  else blankCell(cell, row && (bitmap === null || row.end === "failed") ? nothingFor(row) : "");
}

/** A long name is cut before the part in which it differs; the first letters of that part are always shown. */
function nameCell(cell, name, { room, neighbours }) {
  const [from, letters] = cut(name, room, neighbours);
  cell.head.textContent = name.slice(0, from);
  cell.tail.textContent = name.slice(from);
  cell.head.style.maxWidth = `calc(100% - ${letters}ch)`;
  cell.tail.style.maxWidth = name.length - from > letters ? `${letters}ch` : "100%";
  cell.key.title = name;
}

export function drawCell(cell, picture) {
  if (cell.shown === cell.row.id) return;
  const context = (cell.context ??= cell.canvas.getContext("2d", { alpha: false }));
  Object.assign(cell.canvas, { width: picture.width, height: picture.height }); // in its own shape: styles fit it in
  context.drawImage(picture, 0, 0);
  cell.canvas.style.visibility = "visible";
  cell.none.textContent = "";
  cell.classList.remove("loading");
  cell.shown = cell.row.id;
}

/** text: "" while the picture is being loaded. */
export function blankCell(cell, text) {
  cell.classList.toggle("loading", !text);
  cell.canvas.style.visibility = "hidden";
  cell.none.textContent = text;
  cell.shown = "";
}
