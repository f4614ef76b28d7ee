// The contact sheet: every shot of every video, and its outcome.
import { make } from "./elements.js";
import { eachJob, note, picture, rest, section } from "./parts.js";
import { timeline } from "./shots.js";
import { count, counted, duration, number, ruleBound, scoreText, timecode } from "./words.js";

/** "filter.black: 1, at most 0.33 is kept". crop: seconds that clips leave out at each cut. */
function ruleText({ reason, score, bound }, crop) {
  if (score === null) return reason;
  const told = `${reason}: ${scoreText(reason, score, bound ? [bound] : [])}`;
  if (!bound) return told;
  const after = reason === "clip.too-short" && crop > 0 ? ` after ${duration(crop)} at each cut` : "";
  return `${told}${after}${after ? ";" : ","} ${ruleBound(reason, bound)} is kept`;
}

const ofCopy = (of) => `the file of ${of} again`;

function endingText(video, ending, crop) {
  if (ending.end === "kept") return make("q", { class: "caption" }, ending.caption || "(no caption)");
  if (ending.end === "filtered") return make("span", { class: "why filtered" },
      ending.of ? `Filtered: ${ofCopy(ending.of)}` : `Filtered by ${ruleText(ending, crop)}`);
  return make("span", { class: "why failed" }, `Failed in ${ending.stage || video.key}: ${ending.reason}`);
}

function endings(video, { clips, endings: told, is_fade: isFade, is_left_out: isLeftOut }, crop) {
  if (!clips && isFade) return [make("span", { class: "why muted" }, "A fade, left out")];
  if (!clips) return [make("span", { class: "why muted" },
      video.is_cut ? "No clip was made from it" : `No clip: the video itself was ${video.ending.end}`)];
  return [...told.map((ending) => endingText(video, ending, crop)),
      ...(isLeftOut ? [make("span", { class: "why muted" }, "Left out later")] : []),
      ...(clips > 1 ? [make("span", { class: "muted" }, `Cut into ${counted(clips, "clip")}`)] : [])];
}

/** Where a shot's only clip is, if it is not the whole shot. */
function clipText(tile, seconds) {
  if (!tile.kept || !tile.frames || (tile.frames[0] === tile.first && tile.frames[1] === tile.last)) return "";
  return ` · clip of ${duration(seconds(tile.frames[1] - tile.frames[0]))} from ${timecode(seconds(tile.frames[0]))}`;
}

function tileElement(video, tile, crop) {
  const seconds = (frame) => (video.fps > 0 ? frame / video.fps : 0), isShot = tile.shot !== undefined;
  const score = isShot ? video.shots[tile.shot].score : null, name = isShot ? `Shot ${tile.shot + 1}` : tile.key;
  const start = score !== null ? ` · cut at score ${number(score)}` : tile.shot === 0 ? " · start of the video"
      : video.fades.some(([first, last]) => first < tile.first && tile.first <= last) ? " · after a fade" : "";
  const when = make("span", { class: "when" }, make("b", {}, timecode(seconds(tile.first))),
      make("span", {}, duration(seconds(tile.last - tile.first))));
  return make("li", { class: !tile.kept ? "lost" : tile.is_left_out ? "later" : "whole" }, make("figure", {},
    picture(tile.image, `A frame of ${isShot ? `shot ${tile.shot + 1}` : `clip ${tile.key}`} of ${video.key}`),
    make("figcaption", {}, when, endings(video, tile, crop),
        make("span", { class: "muted" }, name + start + clipText(tile, seconds)))));
}

function about({ file, width, height, fps, frames, shots }) {
  const parts = [file, width > 0 && `${width} × ${height}`, fps > 0 && `${number(fps, 5)}\u00A0fps`,
      frames > 0 && counted(frames, "frame"), frames > 0 && fps > 0 && timecode(frames / fps),
      shots.length && counted(shots.length, "shot")];
  return parts.filter(Boolean).join(" · ");
}

function article(video, detector, threshold, crop) {
  const { end, stage, reason, of } = video.ending, isBrief = video.tiles.length < 2;
  return make("article", { class: isBrief ? "source-video brief" : "source-video" }, make("h3", {}, video.key),
    make("p", { class: "muted" }, about(video)),
    end === "failed" ? note(`The video failed in ${stage}: ${reason}`, "failed") : null,
    end === "filtered" ? note(of ? `The video was left out: it is ${ofCopy(of)}`
        : `The video was filtered by ${ruleText(video.ending, crop)}`, "filtered") : null,
    video.damaged && end !== "failed" ? note(`The video is damaged: ${video.damaged}`, "failed") : null,
    timeline(isBrief ? { ...video, scores: [] } : video, detector, threshold), // without a cut, scores explain nothing
    video.tiles.length
        ? make("ol", { class: "shots" }, video.tiles.map((tile) => tileElement(video, tile, crop))) : null,
    rest(video.more_tiles, "more shot", " of this video: items.jsonl has all of them."));
}

/** How many inputs failed, and those before anything was found in them. */
function failedInputs({ all, in_part: inPart, list, more }) {
  if (!all) return [];
  return [make("div", { class: "at-failed-inputs" },
      make("h3", {}, `${counted(all, "input")} failed${inPart ? `, ${count(inPart)} of them in part` : ""}`),
      make("ul", {}, list.map((ending) => make("li", {}, make("b", {}, ending.key), " ", endingText(ending, ending)))),
      rest(more, "more failed input", " in items.jsonl."))];
}

const kShown = matchMedia("(max-width: 40rem)").matches ? 4 : 12; // further videos are folded

function articles(list, draw) {
  const videos = (some) => make("div", { class: "source-videos" }, some.map(draw)), folded = list.slice(kShown);
  return [videos(list.slice(0, kShown)), ...(folded.length ? [make("details", { class: "more-videos" },
      make("summary", {}, counted(folded.length, "more video")), videos(folded))] : [])];
}

export const sourceVideos = (jobs) => section("source-videos", "Source videos and their shots",
    eachJob(jobs, ({ name, source_videos: { found, failed, list, more, detector, threshold, edge_crop: crop } }) => [
  ...(found ? [] : [note(`There is no items.jsonl in the folder of job “${name}”.`)]),
  ...failedInputs(failed),
  ...articles(list, (video) => article(video, detector, threshold, crop)),
  ...rest(more, "further video", ": they are counted below, and items.jsonl has all of them."),
]));
