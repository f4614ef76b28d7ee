// The page: connects its parts, handles the keys, and decides when to request what from the studio.
import { get, Gone, post, Query } from "./api.js";
import { acceptable, Detail } from "./detail.js";
import { askReason, showKeys } from "./dialogs.js";
import { Editor } from "./editor.js";
import { Filters } from "./filters.js";
import { make } from "./elements.js";
import { copiesOf, kinds, plural } from "./format.js";
import { Live } from "./live.js";
import { Sheet } from "./sheet.js";
import { Timeline } from "./timeline.js";

const kPoll = 2000; // milliseconds between checks for changes by others
const element = (id) => document.getElementById(id);
const query = new Query();
let asked = 0, shown = 0; // sequence numbers of requests for the state
let state = { version: 0, reasons: [], counts: { ends: {} }, films: { ends: {} } };

function say(text, isError = false) {
  const status = element("status");
  status.textContent = text;
  status.className = `shown ${isError ? "error" : ""}`;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => (status.className = ""), isError ? 8000 : 2500);
}

const failed = (error) => error.name === "AbortError" || say(error.message, true);
const toClips = () => element("list").focus({ preventScroll: true });

const timeline = new Timeline((id) => sheet.choose(id).catch(failed), neighbour);
const editor = new Editor(saveCaption, toClips);
const detail = new Detail(element("detail"), editor, timeline, { failed, accept, reject, alike, original, close: closeDetail });
const live = new Live(element("live"));
const filters = new Filters(element("conditions"), element("numbers"), query, () => changeView().catch(failed));
const sheet = new Sheet(element("list"), element("space"), query, {
  failed,
  isWriting: () => editor.isWriting(),
  selected: (row, isExpected) => detail.select(row, isExpected),
  chosen: () => element("detail").classList.add("open"),
});

/** After a change of query or order: reloads the sheet, the counts and the histograms. A search may wait for its first answer. */
async function changeView(toFirst = false) {
  if (element("text").value.trim() !== query.text) element("text").value = query.text;
  filters.showCounts(state.counts, state.films);
  const waiting = setTimeout(() => (element("summary").textContent = "Searching…"), 300);
  try {
    const [total] = await Promise.all([sheet.reload(toFirst), filters.showNumbers()]);
    summarise(total);
    say(kinds(total, sheet.films));
  } finally {
    clearTimeout(waiting);
  }
}

/** How the clips were found: by meaning or by words, and why not by meaning if that was requested. */
function foundBy({ by, why }) {
  if (by === "meaning") return ", nearest in meaning first";
  if (by === "pictures") return `, most like ${query.like.split("/").slice(1).join("/")} first`;
  return by === "words" && why ? `, by words: ${why}` : "";
}

/** How many of all items are shown, clips and input videos apart. Hidden copies count in neither. */
function summarise(total) {
  const isAll = query.copies || query.sets.end.size > 0 || query.sets.rule.size > 0;
  const sum = (counts) => Object.entries(counts.ends).reduce((n, [end, count]) => n + (end === "copy" && !isAll ? 0 : count), 0);
  const { copy: copies = 0 } = state.counts.ends;
  const all = Math.max(total, sum(state.counts)), films = sum(state.films);
  const unreadable = state.unreadable ? `; ${plural(state.unreadable, "line")} of items.jsonl cannot be read` : "";
  const mixed = films > 0 && films < all;
  const count = total === all ? "" : `${total.toLocaleString("en")} of `;
  const whole = !mixed ? plural(all, films ? "video" : "clip") : `${plural(all, "item")}${total ? `: ${kinds(total, sheet.films)}` : ""}`;
  element("summary").textContent = count + whole + foundBy(sheet.found) + unreadable + (state.wrong ? `; ${state.wrong}` : "");
  element("all").hidden = query.isEmpty();
  element("copies").hidden = !copies;
  element("copies").textContent = `Show ${copies === 1 ? "1 copy" : `${copies.toLocaleString("en")} copies`}`;
  element("nothing").hidden = total > 0;
  element("nothing").textContent = all || copies ? nothingFound() : waits();
  element("sort").options[0].textContent = sheet.found.by ? "best first" : "in order";
}

function nothingFound() {
  const what = query.text ? `Nothing found for “${query.text}”` : "No similar clip found";
  const narrowed = query.ranges.size || Object.values(query.sets).some((set) => set.size);
  return query.text && narrowed ? `${what} with these filters. Show all clears the search and the filters.` : `${what}. Show all clears the search.`;
}

function waits() {
  if (state.live.some((job) => !job.done && job.figures && !job.figures.ended)) return "There are no clips yet. They appear here as the job stores them.";
  return state.live.some((job) => job.done) ? "The job has ended without any clip or video." : "There are no clips yet. They appear here as a job stores them.";
}

function showState(now) {
  state = now;
  element("folder").textContent = now.title;
  element("folder").title = now.title;
  document.title = `Studio: ${now.title.split("/").pop()}`;
  element("undo").disabled = !now.undo;
  element("redo").disabled = !now.redo;
  filters.showCounts(now.counts, now.films);
  live.show(now.live);
  element("how").hidden = !now.search.text;
  element("text").placeholder = now.search.text && !query.words ? "Search by meaning  ( / )" : "Search captions  ( / )";
  const sort = element("sort"), fields = ["", "key", "caption", ...now.fields];
  if (sort.options.length !== fields.length) {
    sort.replaceChildren(...fields.map((field) => make("option", { value: field }, field ? `by ${field.replace(/^scores\./, "")}` : "in order")));
    sort.value = query.sort;
  }
}

/** True if the state has changed. Drops an answer that arrives after that of a later request. */
async function askState() {
  const turn = ++asked, now = await get("/api/state");
  if (turn < shown) return false;
  shown = turn;
  const isOther = now.version !== state.version;
  showState(now);
  return isOther;
}

/** Applies the changes of other pages or of a running job. */
async function look() {
  if (!(await askState())) return;
  sheet.renew();
  const [total] = await Promise.all([sheet.reload(), filters.showNumbers()]);
  summarise(total);
  if (sheet.selectedId && !editor.isOpen()) await detail.show(sheet.selectedId);
}

/** Shows a bar while the studio does not answer. */
function lost(error) {
  if (!(error instanceof Gone)) return failed(error);
  element("lost").textContent = "The studio does not answer. You can still browse what is loaded, but nothing can be saved; restart it with kinora studio.";
}

function poll() {
  const now = () => look().then(() => (element("lost").textContent = ""));
  setTimeout(() => (document.hidden ? Promise.resolve() : now()).catch(lost).finally(poll), kPoll);
}

/** The answer to an edit. The clip is updated at once; the counts follow, and no other edit waits for them. */
function edited(clip, text) {
  sheet.update(clip);
  say(text);
  Promise.all([detail.set(clip), askState()]).catch(failed);
}

// A key acts on the clip that was selected when it was pressed, by the id in `sheet.chosen`, whatever the page still shows. Edits
// are sent in the order of their keys. A late answer about a clip that is no longer selected is dropped.
let turns = Promise.resolve();
function inTurn(act) {
  turns = turns.then(act).catch((error) => {
    failed(error);
    return false;
  });
  return turns;
}

const whole = async ({ id }) => (detail.clip?.id === id ? detail.clip : get("/api/clip", { id }));

async function change(id, set, text) {
  const clip = await post("/api/edit", { id, set });
  edited(clip, text(clip));
  return true;
}

function saveCaption(id, caption) {
  const chosen = id ? Promise.resolve({ id }) : sheet.chosen;
  return inTurn(async () => change((await chosen).id, { caption }, ({ key }) => `Caption saved: ${key}`));
}

function accept() {
  const { chosen } = sheet;
  return inTurn(async () => {
    const clip = await whole(await chosen);
    if (!acceptable(clip)) return say(`${clip.key} cannot be accepted: nothing of it is stored`, true);
    return change(clip.id, { keep: true, reason: "" }, ({ key }) => `Accepted: ${key}`);
  });
}

/** Rejects the copies first, so that undo begins with the clip itself. Takes its turn when the dialog opens: the browser may
 * deliver the next key before it says that the dialog is closed. */
function reject() {
  const { chosen } = sheet, answered = askReason(sheet.selectedRow(), chosen.then(whole), state.reasons);
  return inTurn(async () => {
    const answer = await answered;
    if (!answer) return false;
    const { reason, copies } = answer, also = copies.length ? ` and its ${copiesOf(answer)}` : "";
    for (const id of copies) sheet.update(await post("/api/edit", { id, set: { keep: false, reason } }));
    return change((await chosen).id, { keep: false, reason }, ({ key }) => `Rejected: ${key}${also}`);
  });
}

async function alike() {
  const clip = await sheet.chosen.then(whole).catch(failed);
  const before = { text: query.text, like: query.like, embedding: query.embedding };
  if (!clip?.embeddings) return;
  if (!clip.embeddings.length) return say(`${clip.key} has no image embedding, so similar clips cannot be found`, true);
  query.search({ like: clip.id, embedding: clip.embeddings.includes(detail.embedding) ? detail.embedding : clip.embeddings[0] });
  try {
    await changeView(true);
    if (!editor.isOpen() && document.activeElement !== element("text")) closeDetail(); // does not interrupt a user who is typing
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
  sheet.selectComing(sheet.chosen.then(whole).then((clip) => clip.copy_id || clip.id));
}

function showCopies() {
  if (element("copies").hidden) return;
  query.copies = !query.copies;
  element("copies").setAttribute("aria-pressed", query.copies);
  changeView().catch(failed);
}

function byWords(words = !query.words) {
  if (element("how").hidden) return;
  query.words = words;
  element("how").setAttribute("aria-pressed", words);
  element("text").placeholder = words ? "Search captions  ( / )" : "Search by meaning  ( / )";
  if (query.text) changeView(true).catch(failed);
}

function step(path, word) {
  const { chosen } = sheet;
  return inTurn(async () => {
    const clip = await post(path);
    if (!clip.id) return say(`${word}: ${clip.key}, which no longer exists`);
    if (sheet.chosen === chosen && sheet.selectedId !== clip.id && !editor.isOpen()) await sheet.choose(clip.id); // else the user has selected another clip since
    return edited(clip, `${word}: ${clip.key}`);
  });
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

function neighbour(step) {
  sheet.selectComing(sheet.chosen.then(({ id }) => timeline.beside(id, step)));
}

const move = (by) => sheet.select((sheet.selected < 0 ? -1 : sheet.selected) + by);
// Keys and their actions; an action returns true to keep the browser's own behaviour.
const kActions = {
  j: () => move(1), k: () => move(-1), ArrowRight: () => move(1), ArrowLeft: () => move(-1),
  ArrowDown: () => move(sheet.columns), ArrowUp: () => sheet.select(Math.max(sheet.selected - sheet.columns, sheet.selected % sheet.columns)),
  PageDown: () => move(sheet.page()), PageUp: () => move(-sheet.page()), Home: () => sheet.select(0), End: () => sheet.select(sheet.total - 1),
  " ": () => detail.toggle(), ",": () => detail.step(-1), ".": () => detail.step(1), "[": () => neighbour(-1), "]": () => neighbour(1),
  e: () => (element("detail").classList.add("open"), editor.open()), a: accept, x: reject, u: () => step("/api/undo", "Undone"), U: () => step("/api/redo", "Redone"),
  m: alike, o: original, c: showCopies, w: () => byWords(), "/": () => element("text").focus(), "?": showKeys, f: () => openFilters(true),
  Enter: () => (element("detail").classList.add("open"), element("detail").focus()),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const at = event.target;
  if (event.key === "Escape") {
    openFilters(false);
    closeDetail();
    return event.preventDefault();
  }
  if (at.closest("input, textarea, select")) return;
  if (at.closest("button, summary, a") && (event.key === "Enter" || event.key === " ")) return;
  const action = kActions[event.key];
  if (!action) return;
  event.preventDefault();
  if ((sheet.total && sheet.chosen) || "/?fwc".includes(event.key)) action();
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
element("order").addEventListener("click", (event) => {
  query.descending = !query.descending;
  event.currentTarget.setAttribute("aria-pressed", query.descending);
  changeView().catch(failed);
});
element("undo").addEventListener("click", () => kActions.u());
element("redo").addEventListener("click", () => kActions.U());
element("keys").addEventListener("click", showKeys);
element("toggle-filters").addEventListener("click", () => openFilters());
element("close-filters").addEventListener("click", () => {
  openFilters(false);
  toClips();
});

history.replaceState(null, "", "/"); // the token is stored in a cookie, so it can leave the address
get("/api/state")
  .then(async (now) => {
    showState(now);
    const [total] = await Promise.all([sheet.reload(), filters.showNumbers()]);
    summarise(total);
    if (document.activeElement === document.body) toClips(); // a key may have opened the caption before the numbers arrived
  })
  .catch(failed)
  .finally(poll);
