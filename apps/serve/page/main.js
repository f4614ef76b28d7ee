// The page: connects its parts, asks the server for the videos, and handles the keys.
import { contentOf, addressOf, get, onlyReads, Refusal, remove } from "./api.js";
import { Cards } from "./cards.js";
import { Compare } from "./compare.js";
import { Form } from "./form.js";
import { Player } from "./player.js";
import { isOver } from "./settings.js";
import { Shots } from "./shots.js";

const kBusy = 1000, kIdle = 4000; // milliseconds between looks while a video is made, and else
const kPage = "/v1/videos?limit=100";
const element = (id) => document.getElementById(id);

let videos = []; // the newest first
let older = []; // those of them that are on later pages
let chosen = null; // the first of two to compare
let hasModels = false, isFirst = true;
let turn = 0, timer;

function say(text) {
  const status = element("status");
  status.textContent = text;
  status.classList.add("shown");
  clearTimeout(say.timer);
  say.timer = setTimeout(() => status.classList.remove("shown"), 5000);
}

const failed = (error) => say(error.message);

const player = new Player(element("video"), element("said"), element("title"), element("drift"));
const compare = new Compare(element("compare"));
const form = new Form(element("wish"), new Shots(element("bar"), element("rows"), element("shots-said")),
    { made, say });
const cards = new Cards(element("queue"), element("history"), {
  show: (video) => show(video),
  reuse: (video) => form.reuse(video),
  proceed: (video) => proceed(video).catch(failed),
  compare: (video) => choose(video),
  remove: (video) => drop(video).catch(failed),
  isCompared: (id) => chosen?.id === id,
});

const draw = () => cards.show(videos, player.id);

function show(video) {
  player.show(video);
  draw();
}

function made(video) {
  say("The video is in the queue");
  if (!player.isLive) show(video);
  refresh();
}

/** Makes the video what the next one begins with. */
async function proceed(video) {
  const response = await fetch(contentOf(video.id)).catch(() => null);
  if (!response?.ok) throw new Refusal("the video cannot be read");
  form.beginWith(new File([await response.blob()], `${video.id}.mp4`, { type: "video/mp4" }));
  form.focus();
  say("The next video continues this one");
}

function choose(video) {
  if (chosen && chosen.id !== video.id) compare.open(chosen, video);
  else if (!chosen) say("Choose another video to compare with");
  chosen = chosen ? null : video;
  draw();
}

async function drop(video) {
  if (video.status === "completed" && !confirm("Delete this video? It cannot be brought back.")) return;
  await remove(addressOf(video.id));
  older = older.filter(({ id }) => id !== video.id);
  if (chosen?.id === video.id) chosen = null;
  if (player.id === video.id) player.clear();
  say("Deleted");
  await refresh();
}

/** Reads the models and the videos again, and once more after a while. */
async function refresh() {
  const now = ++turn;
  clearTimeout(timer);
  try {
    if (!hasModels) {
      const { data } = await get("/v1/models");
      document.body.classList.toggle("reads", onlyReads());
      form.setModels(data);
      hasModels = data.every(({ defaults }) => defaults);
    }
    const page = await get(kPage);
    if (now !== turn) return; // a later call has begun
    take(page);
    element("lost").textContent = "";
  } catch (error) {
    if (now !== turn) return;
    element("lost").textContent = error.message;
  }
  timer = setTimeout(refresh, videos.every(isOver) ? kIdle : kBusy);
}

function take({ data, has_more: hasMore }) {
  const ids = new Set(data.map(({ id }) => id));
  videos = [...data, ...older.filter(({ id }) => !ids.has(id))];
  if (!older.length) element("older").hidden = !hasMore;
  for (const video of data) player.tell(video);
  const running = videos.find(({ status }) => status === "in_progress");
  if (isFirst && running) player.show(running);
  isFirst = false;
  draw();
}

async function showOlder() {
  const page = await get(`${kPage}&after=${encodeURIComponent(videos.at(-1).id)}`);
  older.push(...page.data);
  videos.push(...page.data);
  element("older").hidden = !page.has_more;
  draw();
}

function key(event) {
  const { target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")
      || target.closest("input, textarea, select")) return;
  const keys = { "?": () => element("keys").showModal() };
  if (!onlyReads()) keys.n = () => form.focus();
  const video = element("video");
  if (!target.closest("button, a, video, summary, [role=slider]") && player.id)
    keys[" "] = () => (video.paused ? video.play().catch(() => {}) : video.pause());
  const run = keys[event.key];
  if (!run) return;
  event.preventDefault();
  run();
}

history.replaceState(null, "", "/"); // the token is stored in a cookie, so it can leave the address
document.addEventListener("keydown", key);
element("show-keys").addEventListener("click", () => element("keys").showModal());
element("drift").open = matchMedia("(min-width: 1100px)").matches;
element("older").addEventListener("click", () => showOlder().catch(failed));
refresh();
