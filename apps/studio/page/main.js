// The page: connects its parts, and decides when to request what from the studio.
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
import { Keys } from "./keys.js";
import { Live } from "./live.js";
import { ClipMap } from "./map.js";
import { menuGroups, stateScores, titleOf } from "./names.js";
import { Panes } from "./panes.js";
import { Review } from "./review.js";
import { Search } from "./search.js";
import { Selection } from "./selection.js";
import { Sheet } from "./sheet.js";
import { element, failed, say } from "./status.js";
import { Steps } from "./steps.js";
import { searching, showOrder, showTotal } from "./summary.js";
import { Timeline } from "./timeline.js";
import { Views } from "./views.js";
import { whyNot } from "./whynot.js";

const kPoll = 2000; // milliseconds between checks for changes by others
const kSign = 80; // milliseconds until the page says that it waits for an answer
const query = new Query();
let asked = 0, shown = 0; // sequence numbers of requests for the state
// of the studio; its counts are shown once the clips of the same version are
let state = { version: 0, reasons: [], tags: [], anew: [], counts: { ends: {} }, videos: { ends: {} } };
let known = { version: 0, seen: [] }; // of the state whose clips the page shows

const summarise = (total) => showTotal(total, { query, sheet, state });

/** The counts on the left and above the clips, which are of one state. */
function showCounts() {
  review.show(state.review);
  filters.showCounts(state);
  summarise(sheet.total);
}

const timeline = new Timeline((id) => sheet.choose(id).catch(failed), (step) => steps.neighbour(step));
const editor = new Editor((id, caption, seen) => actions.saveCaption(id, caption, seen), () => panes.toClips());
const detail = new Detail(element("detail"), editor, timeline, {
  failed, alike, accept: () => actions.accept(), reject: () => actions.reject(), tag: () => actions.tag(),
  untag: (id, name) => actions.untag(id, name), move: (by) => steps.move(by), original: () => steps.original(),
  compare: compareCopies, close: () => panes.closeDetail(),
});
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
  open: (id) => (panes.openDetail(), sheet.choose(id).catch(failed)),
  lasso: (ids, isMore) => selection.take(ids, isMore),
});
const panes = new Panes(sheet, map);
const funnelBar = new FunnelBar(element("funnel"), query,
    () => (views.wrong(""), changeView(true).catch(failed)));
const views = new Views(query, changeView, { say, failed });
const actions = new Actions(sheet, selection, detail, editor,
    { state: () => state, seen: () => known.seen, say, failed, edited, look, goOn: () => steps.goOn() });
const review = new Review({ next: () => steps.toReview(), say });
const search = new Search(query, changeView, () => panes.toClips());
const steps = new Steps({ sheet, timeline, detail, actions, review });
const keys = new Keys({ actions, detail, editor, panes, search, selection, sheet, steps,
    view: { alike, compareCopies, showCopies } });

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
  else panes.openDetail();
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
  search.show();
  filters.showCounts(state);
  views.show();
  showOrder(query);
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
  search.offer(now.search.text);
  element("show-map").hidden = !now.search.pictures.length;
  const sort = element("sort"), option = (value, text) => make("option", { value }, text);
  if (sort.options.length !== now.fields.length + 3) {
    sort.replaceChildren(option("", "in order"), option("key", "name"), option("caption", "caption"),
        ...menuGroups(now.fields).map(([label, fields]) => make("optgroup", { label },
        fields.map((field) => option(field, titleOf(field))))));
    showOrder(query);
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
    if (!editor.isOpen() && document.activeElement !== element("text")) panes.closeDetail();
  } catch (error) {
    if (error.name === "AbortError") return; // a later search replaced this one
    query.search(before);
    failed(error);
  }
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

element("copies").addEventListener("click", showCopies);
element("all").addEventListener("click", () => {
  filters.clear();
  panes.toClips();
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
  element(id).addEventListener("click", () => keys.press(key));
element("select-all").addEventListener("click", () => {
  selection.all();
  panes.toClips();
});
element("select-none").addEventListener("click", () => {
  selection.clear();
  panes.toClips();
});
element("size").addEventListener("change", (event) => panes.resize(event.target.value));
element("show-map").addEventListener("click", () => panes.showMap());
element("undo").addEventListener("click", () => keys.press("u"));
element("redo").addEventListener("click", () => keys.press("U"));
element("keys").addEventListener("click", showKeys);
element("toggle-filters").addEventListener("click", () => panes.openFilters());
element("close-filters").addEventListener("click", () => {
  panes.openFilters(false);
  panes.toClips();
});

if (localStorage.getItem("size") in { small: 1, large: 1 }) panes.resize(localStorage.getItem("size"));
history.replaceState(null, "", "/"); // the token is stored in a cookie, so it can leave the address
get("/api/state")
  .then(async (now) => {
    showState(now);
    await Promise.all([sheet.reload(), filters.showNumbers()]);
    known = { version: now.version, seen: now.seen };
    showCounts();
    // a key may have opened the caption before the numbers arrived
    if (document.activeElement === document.body) panes.toClips();
  })
  .catch(failed)
  .finally(poll);
