// The page: connects its parts, handles the keys, and decides when to request what from the studio.
import { Actions } from "./actions.js";
import { get, Gone, post, Query } from "./api.js";
import { Compare } from "./compare.js";
import { Detail } from "./detail.js";
import { showKeys } from "./dialogs.js";
import { Editor } from "./editor.js";
import { Filters } from "./filters.js";
import { make } from "./elements.js";
import { FunnelBar } from "./funnel_bar.js";
import { kinds, plural } from "./format.js";
import { foundBy, hiddenCopies, nothingFound } from "./found.js";
import { Live } from "./live.js";
import { ClipMap } from "./map.js";
import { menuGroups, stateScores, titleOf } from "./names.js";
import { Review } from "./review.js";
import { Selection } from "./selection.js";
import { Sheet } from "./sheet.js";
import { Timeline } from "./timeline.js";
import { Views } from "./views.js";
import { whyNot } from "./whynot.js";

const kPoll = 2000; // milliseconds between checks for changes by others
const kSign = 80; // milliseconds until the page says that it waits for an answer
const element = (id) => document.getElementById(id);
const query = new Query();
let asked = 0, shown = 0; // sequence numbers of requests for the state
const noKeyboard = matchMedia("(max-width: 760px), (hover: none)");
// of the studio; its counts are shown once the clips of the same version are
let state = { version: 0, reasons: [], tags: [], anew: [], counts: { ends: {} }, videos: { ends: {} } };
let known = { version: 0, seen: [] }; // of the state whose clips the page shows

function say(text, isError = false) {
  const status = element("status");
  status.textContent = text;
  status.className = `shown ${isError ? "error" : ""}`;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => (status.className = ""), isError ? 8000 : 2500);
}

const searching = () => (element("summary").textContent = "Searching…");

/** The counts on the left and above the clips, which are of one state. */
function showCounts() {
  review.show(state.review);
  filters.showCounts(state);
  summarise(sheet.total);
}

const failed = (error) => error.name === "AbortError" || say(error.message, true);
const toClips = () => (map.isOpen ? map.canvas : element("list")).focus({ preventScroll: true });

const timeline = new Timeline((id) => sheet.choose(id).catch(failed), neighbour);
const editor = new Editor((id, caption, seen) => actions.saveCaption(id, caption, seen), toClips);
const ofClip = { accept: () => actions.accept(), reject: () => actions.reject(), tag: () => actions.tag(),
    untag: (id, name) => actions.untag(id, name), move: (by) => move(by) };
const detail = new Detail(element("detail"), editor, timeline,
    { failed, ...ofClip, alike, original, compare: compareCopies, close: closeDetail });
const live = new Live(element("live"));
const filters = new Filters(element("conditions"), element("numbers"), query, () => changeView().catch(failed),
    { say, failed, rewritten: () => views.wrong("") });
const sheet = new Sheet(element("list"), element("space"), query, {
  failed,
  isWriting: () => editor.isWriting(),
  selected: (row, isExpected) => (row === undefined ? detail.clear() : detail.select(row, isExpected), map.draw()),
  clicked,
  outdated: () => sheet.reload().then(summarise).catch(failed),
});
const selection = new Selection(sheet, showSelection, failed);
const map = new ClipMap(element("map"), {
  query, failed, checked: sheet.checked, fields: () => state.fields ?? [],
  selected: () => sheet.selectedId,
  choose: (id) => sheet.choose(id).catch(failed),
  open: (id) => (element("detail").classList.add("open"), sheet.choose(id).catch(failed)),
  lasso: (ids, isMore) => selection.take(ids, isMore),
});
const funnelBar = new FunnelBar(element("funnel"), query, () => changeView(true).catch(failed));
const views = new Views(query, changeView, { say, failed });
const actions = new Actions(sheet, selection, detail, editor,
    { state: () => state, seen: () => known.seen, say, failed, edited, look, goOn });
const review = new Review({ next: nextToReview, say });

Object.assign(detail.trimming, { say, keep: (...trim) => actions.trim(...trim) });
detail.whyNot = async (clip) => {
  await filters.first; // with the bounds of the run
  return whyNot(clip, filters.histograms, say);
};
const pairs = new Compare(actions, failed);

/** A click opens a clip; with Ctrl or on its mark it selects the clip too, with Shift all from the last one on. */
function clicked(place, event) {
  if (event.shiftKey) return selection.extend(() => sheet.select(place));
  sheet.select(place);
  if (event.ctrlKey || event.metaKey || event.target.closest(".check")) selection.toggle();
  else element("detail").classList.add("open");
}

function showSelection() {
  const { size } = selection.ids;
  element("selected").hidden = !size;
  element("how-many").textContent = `${size.toLocaleString("en")} selected`;
  countAccepted().catch(failed);
  if (size !== showSelection.size && (size || showSelection.size))
    say(size ? `${plural(size, "clip")} selected` : "No clip selected");
  showSelection.size = size;
  sheet.mark();
  map.draw();
}

/** Says how many of the selected clips are accepted, once the selection rests. */
async function countAccepted() {
  const turn = (countAccepted.turn = Symbol());
  await new Promise((rests) => setTimeout(rests, 150));
  if (turn !== countAccepted.turn || !selection.ids.size) return;
  const { accepted } = await post("/api/copies", { ids: [...selection.ids] });
  if (turn !== countAccepted.turn) return;
  const { size } = selection.ids, told = accepted ? `, ${accepted.toLocaleString("en")} accepted` : "";
  element("how-many").textContent = `${size.toLocaleString("en")} selected${told}`;
}

/** After a change of query or order: reloads the sheet, the counts and the histograms. A search may wait for its first
 * answer.
 * waits: keys of now act on what the new view selects, which is always so of its first clip. */
async function changeView(toFirst = false, waits = toFirst) {
  selection.clear();
  if (element("text").value.trim() !== query.text) element("text").value = query.text;
  filters.showCounts(state);
  views.show();
  for (const [id, isPressed] of [["how", query.words], ["copies", query.copies]])
    element(id).setAttribute("aria-pressed", isPressed);
  showOrder();
  map.show().catch(failed);
  const waiting = setTimeout(searching, kSign);
  try {
    const [total] = await Promise.all([sheet.reload({ toFirst, isNew: true, waits }), filters.showNumbers()]);
    showCounts();
    selection.keep(); // what was selected while it was loading
    say(kinds(total, sheet.videos));
  } catch (error) {
    if (error.name !== "AbortError") summarise(sheet.total);
    throw error;
  } finally {
    clearTimeout(waiting);
  }
}

/** The order and its direction, in words; a search without an order has only one. */
function showOrder() {
  const isByText = query.sort === "key" || query.sort === "caption" || !query.sort;
  element("sort").value = query.sort;
  const isBest = !query.sort && Boolean(query.text || query.like);
  element("order").disabled = isBest;
  element("order").textContent = isBest ? "best first" : query.descending ? (isByText ? "↓ Z to A" : "↓ high first")
      : isByText ? "↑ A to Z" : "↑ low first";
}

/** How many of all items are shown, clips and input videos apart. Hidden copies count in neither. */
function summarise(total) {
  const { end, rule, kind } = query.sets, isAll = query.copies || end.size > 0 || rule.size > 0 || kind.has("clip");
  const sum = (counts) =>
      Object.entries(counts.ends).reduce((n, [end, count]) => n + (end === "copy" && !isAll ? 0 : count), 0);
  const { copy: copies = 0 } = state.counts.ends;
  const all = Math.max(total, sum(state.counts)), videos = sum(state.videos);
  const unreadable = state.unreadable ? `; ${plural(state.unreadable, "line")} of items.jsonl cannot be read` : "";
  const mixed = (videos > 0 || sheet.videos > 0) && videos < all; // of videos that were cut, the view may have some
  const count = total === all ? "" : `${total.toLocaleString("en")} of `;
  const whole = !mixed ? plural(all, videos ? "video" : "clip")
      : `${plural(all, "item")}${total ? `: ${kinds(total, sheet.videos)}` : ""}`;
  const wrong = state.wrong ? `; ${state.wrong}` : "";
  element("summary").textContent = count + whole + foundBy(sheet, query) + unreadable + wrong;
  element("all").hidden = query.isEmpty();
  element("copies").hidden = !copies;
  element("copies").textContent = `Show ${copies === 1 ? "1 copy" : `${copies.toLocaleString("en")} copies`}`;
  element("nothing").hidden = total > 0;
  element("nothing").textContent = all || copies ? nothingFound(query) + hiddenCopies(sheet.found) : waits();
  element("sort").options[0].textContent = sheet.found.by ? "best first" : "in order";
}

function waits() {
  if (state.anew.length)
    return `${state.anew.join(" and ")} is making its clips anew. They appear here as the job stores them.`;
  if (state.live.some((job) => !job.done && job.figures && !job.figures.ended))
    return "There are no clips yet. They appear here as the job stores them.";
  return state.live.some((job) => job.done) ? "The job has ended without any clip or video."
      : "There are no clips yet. They appear here as a job stores them.";
}

function showState(now) {
  state = now;
  stateScores(now.scores);
  element("folder").textContent = now.title.split("/").slice(-2).join("/");
  element("folder").title = now.title;
  document.title = `Studio: ${now.title.split("/").pop()}`;
  element("undo").disabled = !now.undo;
  element("redo").disabled = !now.redo;
  views.show(now.views);
  funnelBar.show(now);
  live.show(now.live, now.anew);
  element("how").hidden = !now.search.text;
  element("text").placeholder = searchFor(now.search.text && !query.words);
  element("show-map").hidden = !now.search.pictures.length;
  const sort = element("sort"), option = (value, text) => make("option", { value }, text);
  if (sort.options.length !== now.fields.length + 3) {
    sort.replaceChildren(option("", "in order"), option("key", "name"), option("caption", "caption"),
        ...menuGroups(now.fields).map(([label, fields]) => make("optgroup", { label },
        fields.map((field) => option(field, titleOf(field))))));
    showOrder();
  }
}

/** Drops an answer that arrives after that of a later request. */
async function askState() {
  const turn = ++asked, now = await get("/api/state");
  if (turn < shown) return;
  shown = turn;
  showState(now);
}

/** Applies the changes of other pages or of a running job. */
async function look() {
  await askState();
  const { version, seen } = state;
  if (version === known.version || actions.isSending) return;
  sheet.pictures.renew();
  map.show().catch(failed);
  await Promise.all([sheet.reload(), filters.showNumbers()]);
  known = { version, seen };
  if (sheet.rows.shown.at !== version) await askState(); // a job has gone on meanwhile
  showCounts();
  selection.keep();
  if (sheet.selectedId && !editor.isOpen()) await detail.show(sheet.selectedId);
}

/** Shows a bar while the studio does not answer. */
function lost(error) {
  if (!(error instanceof Gone)) return failed(error);
  element("lost").textContent =
      "The studio does not answer. You can still browse what is loaded, but nothing can be saved; " +
      "restart it with kinora studio.";
}

function poll() {
  const now = () => look().then(() => (element("lost").textContent = ""));
  setTimeout(() => (document.hidden ? Promise.resolve() : now()).catch(lost).finally(poll), kPoll);
}

/** The answer to an edit. One clip is updated at once, many are requested again; the counts follow, and no other edit
 * waits for them. */
function edited({ clip, changed, version, at_work: isAtWork }) {
  // else other people have changed something, too
  if (version === known.version + (changed ? 1 : 0)) known.version = version;
  if (clip) sheet.update(clip);
  if (changed > 1 || !clip) sheet.rows.again();
  // it may not be made again yet
  const shows = clip ? detail.set(clip)
      : changed && sheet.selectedId && detail.show(sheet.selectedId).catch((error) => isAtWork || failed(error));
  Promise.all([shows, askState().then(() => state.version === known.version && showCounts())]).catch(failed);
  countAccepted().catch(failed);
}

async function alike() {
  const clip = await sheet.chosen.then((chosen) => actions.whole(chosen)).catch(failed);
  const before = { text: query.text, like: query.like, embedding: query.embedding };
  if (!clip?.embeddings) return;
  if (!clip.embeddings.length) return say(`${clip.key} has no image embedding, so similar clips cannot be found`, true);
  query.search({ like: clip.id,
      embedding: clip.embeddings.includes(detail.embedding) ? detail.embedding : clip.embeddings[0] });
  try {
    await changeView(true);
    // does not interrupt a user who is typing
    if (!editor.isOpen() && document.activeElement !== element("text")) closeDetail();
  } catch (error) {
    if (error.name === "AbortError") return; // a later search replaced this one
    query.search(before);
    failed(error);
  }
}

/** The clip that the selected one is a copy of. */
function original() {
  const row = sheet.selectedRow();
  if (row && !row.copy_id) return say(`${row.key} is not a copy`);
  sheet.selectComing(sheet.chosen.then((chosen) => actions.whole(chosen)).then((clip) => clip.copy_id || clip.id));
}

function compareCopies() {
  const open = (clip) =>
      (clip.copy_id || clip.copies.length ? pairs.open(clip) : say(`${clip.key} is not a copy, and has none`));
  const row = sheet.selectedRow();
  if (row) open(row);
  else sheet.chosen.then((chosen) => actions.whole(chosen)).then(open).catch(failed);
}

function showCopies() {
  if (element("copies").hidden) return;
  query.copies = !query.copies;
  changeView().catch(failed);
}

const searchFor = (isByMeaning) =>
    (isByMeaning ? "Search by meaning" : "Search captions") + (noKeyboard.matches ? "" : "  ( / )");

function byWords(words = !query.words) {
  if (element("how").hidden) return;
  query.words = words;
  element("how").setAttribute("aria-pressed", words);
  element("text").placeholder = searchFor(!words);
  if (query.text) changeView(true).catch(failed);
}

function showMap(isOpen = !map.isOpen) {
  if (element("show-map").hidden) return;
  map.isOpen = isOpen;
  element("map").hidden = !isOpen;
  element("list").hidden = isOpen;
  element("show-map").setAttribute("aria-pressed", isOpen);
  if (!isOpen) return toClips();
  map.canvas.focus({ preventScroll: true });
  map.show().catch(failed);
}

function resize(size) {
  element("size").value = size;
  sheet.resize(size);
  localStorage.setItem("size", size);
}

/** One size up or down. */
function resizeBy(step) {
  const names = [...element("size").options].map(({ value }) => value);
  resize(names[Math.min(Math.max(names.indexOf(sheet.size) + step, 0), names.length - 1)]);
}

function closeDetail() {
  element("detail").classList.remove("open");
  toClips();
}

function openFilters(isOpen = !element("filters").classList.contains("open")) {
  element("filters").classList.toggle("open", isOpen);
  element("toggle-filters").setAttribute("aria-expanded", isOpen);
  if (isOpen) element("conditions").querySelector("button")?.focus();
}

/** The first outcome; from the outcomes, the first histogram. */
function toFilters() {
  const isThere = element("conditions").contains(document.activeElement);
  const bar = isThere && element("numbers").querySelector(".bars [tabindex='0']");
  if (bar) bar.focus();
  else openFilters(true);
}

function neighbour(step) {
  sheet.selectComing(sheet.chosen.then(({ id }) => timeline.beside(id, step)));
}

const playNext = () => (detail.playsNext = !matchMedia("(prefers-reduced-motion: reduce)").matches);

/** From a clip that is decided about to the next one, which plays; the promise of it, or null if there is none. */
function goOn() {
  const { chosen, selectedId, selected } = sheet, isPlaced = Boolean(selectedId) && selected >= 0;
  const place = isPlaced ? sheet.rows.placeAfter(selected) : -1;
  if (isPlaced && place < 0) return null;
  playNext();
  if (isPlaced) sheet.select(place);
  // else the clip or its place is still being loaded
  else sheet.selectComing(chosen.then(({ id }) => sheet.rows.idAfter(id)));
  return sheet.chosen;
}

/** The next clip of the view, at first the selected one itself, that is kept and has no decision, once the decisions of
 * earlier keys are saved. */
function nextToReview() {
  const { chosen } = sheet, from = sheet.selected + (nextToReview.hasBegun ? 1 : 0);
  nextToReview.hasBegun = true;
  playNext();
  sheet.selectComing(actions.turns.then(() => get("/api/next", sheet.rows.inList({ from }))).then(async ({ id }) => {
    if (!id) say(`All clips of this view are reviewed${review.left ? `; ${review.left} others are not` : ""}`);
    return id || (await chosen)?.id;
  }));
}

const move = (by) => sheet.select((sheet.selected < 0 ? -1 : sheet.selected) + by);
// Keys that take the focus to another clip; with Shift they select the clips on the way.
const kMoves = {
  j: () => move(1), k: () => move(-1), ArrowRight: () => move(1), ArrowLeft: () => move(-1),
  ArrowDown: () => move(sheet.columns),
  ArrowUp: () => sheet.select(Math.max(sheet.selected - sheet.columns, sheet.selected % sheet.columns)),
  PageDown: () => move(sheet.page()), PageUp: () => move(-sheet.page()), Home: () => sheet.select(0),
  End: () => sheet.select(sheet.total - 1),
};
const kActions = {
  ...kMoves,
  " ": () => detail.toggle(), ",": () => detail.step(-1), ".": () => detail.step(1),
  "[": () => detail.trimming.first(), "]": () => detail.trimming.last(), "{": () => neighbour(-1),
  "}": () => neighbour(1),
  s: () => selection.toggle(), i: () => selection.invert(), J: () => selection.extend(kMoves.j),
  K: () => selection.extend(kMoves.k),
  e: () => (element("detail").classList.add("open"), editor.open()), a: ofClip.accept, x: ofClip.reject, t: ofClip.tag,
  r: () => actions.rejectNow(), n: nextToReview,
  u: () => actions.step("/api/undo", "Undone"), U: () => actions.step("/api/redo", "Redone"),
  m: alike, o: original, b: compareCopies, c: showCopies, w: () => byWords(), v: () => showMap(),
  "+": () => resizeBy(1), "=": () => resizeBy(1), "-": () => resizeBy(-1), "/": () => element("text").focus(),
  "?": showKeys, f: toFilters,
  Enter: () => (element("detail").classList.add("open"), element("detail").focus()),
};
for (let n = 1; n <= 9; ++n) kActions[n] = () => actions.toggleTag(n - 1);

/** Back to the clips; from there, no clip is selected any more; and from there, the search ends. */
function escape() {
  // in a narrow window
  const covers = (id) => element(id).classList.contains("open") && getComputedStyle(element(id)).position === "fixed";
  const isBack = [element("list"), map.canvas].includes(document.activeElement) && !["detail", "filters"].some(covers);
  openFilters(false);
  closeDetail();
  if (isBack && !selection.ids.size && selection.isSettled()) endSearch();
  else if (isBack) selection.clear();
}

function endSearch() {
  if (!query.text && !query.like) return;
  query.search({});
  changeView().catch(failed);
}

document.addEventListener("keydown", (event) => {
  if (event.altKey || document.querySelector("dialog[open]")) return;
  const at = event.target, isWritten = at.closest("input, textarea, select");
  if (event.ctrlKey || event.metaKey) {
    if (isWritten || event.key !== "a") return;
    event.preventDefault();
    return selection.all();
  }
  if (event.key === "Escape") {
    event.preventDefault();
    return escape();
  }
  if (isWritten) return;
  if (at.closest("button, summary, a") && (event.key === "Enter" || event.key === " ")) return;
  const action = event.shiftKey && kMoves[event.key] ? () => selection.extend(kMoves[event.key]) : kActions[event.key];
  if (!action) return;
  event.preventDefault();
  if ((sheet.total && sheet.chosen) || "/?fwcuU".includes(event.key)) action();
  else if (/^[axrntbemo1-9]$/.test(event.key)) say("No clip is selected: the view is empty");
});

element("search").addEventListener("submit", (event) => {
  event.preventDefault();
  toClips();
});
function searchNow() {
  if (!searchNow.timer) return;
  clearTimeout(searchNow.timer);
  searchNow.timer = 0;
  query.search({ text: element("text").value.trim() });
  changeView(true).catch(failed);
}
element("text").addEventListener("input", () => {
  clearTimeout(searchNow.timer);
  searching();
  searchNow.timer = setTimeout(searchNow, 150);
});
element("text").addEventListener("blur", searchNow); // so that the keys that follow act on the results
element("how").addEventListener("click", () => byWords());
element("copies").addEventListener("click", showCopies);
element("all").addEventListener("click", () => {
  filters.clear();
  toClips();
});
element("sort").addEventListener("change", (event) => {
  query.sort = event.target.value;
  changeView().catch(failed);
});
element("order").addEventListener("click", () => {
  query.descending = !query.descending;
  changeView().catch(failed);
});
for (const [id, key] of [["accept-them", "a"], ["reject-them", "x"], ["tag-them", "t"], ["invert", "i"]])
  element(id).addEventListener("click", () => kActions[key]());
element("select-all").addEventListener("click", () => {
  selection.all();
  toClips();
});
element("select-none").addEventListener("click", () => {
  selection.clear();
  toClips();
});
element("size").addEventListener("change", (event) => resize(event.target.value));
element("show-map").addEventListener("click", () => showMap());
element("undo").addEventListener("click", () => kActions.u());
element("redo").addEventListener("click", () => kActions.U());
element("keys").addEventListener("click", showKeys);
element("toggle-filters").addEventListener("click", () => openFilters());
element("close-filters").addEventListener("click", () => {
  openFilters(false);
  toClips();
});

if (localStorage.getItem("size") in { small: 1, large: 1 }) resize(localStorage.getItem("size"));
history.replaceState(null, "", "/"); // the token is stored in a cookie, so it can leave the address
get("/api/state")
  .then(async (now) => {
    showState(now);
    await Promise.all([sheet.reload(), filters.showNumbers()]);
    known = { version: now.version, seen: now.seen };
    showCounts();
    // a key may have opened the caption before the numbers arrived
    if (document.activeElement === document.body) toClips();
  })
  .catch(failed)
  .finally(poll);
