// Writes the text of a card on the sheet.
import { decided, endName, number, outcome, seconds } from "./format.js";
import { boundText, textOf, titleOf } from "./names.js";

/** The text in place of a picture; the name stands below it. */
export const nothingFor = (row) => (row.end === "failed" && withoutName(row)) || "no picture";

/** "cut off" of "sea.mp4: cut off" if the clip's name is "sea". */
function withoutName({ key, reason = "" }) {
  const at = reason.indexOf(": "), file = reason.slice(0, Math.max(at, 0)).split("/").pop();
  return file === key || file.replace(/\.\w+$/, "") === key ? reason.slice(at + 2) : reason;
}
export const near = (row) => (Number.isFinite(row.similarity) ? row.similarity.toFixed(3) : "");

/** Whether the clip does not match the search. unmatched: the largest similarity too small for a match, or null. */
export const isUnmatched = (row, unmatched) => Boolean(row) && typeof unmatched === "number" && near(row) !== ""
    && row.similarity <= unmatched;

/** Not one whose trim has been taken back to the whole clip. */
const isTrimmed = (row) => Number.isFinite(row.trimmed_s) && row.trimmed_s < row.duration_s - 0.001;

/** "2.5 s", or "✂ 1.2 s" of a trimmed clip. */
export const lengthOf = (row) => (isTrimmed(row) ? `✂ ${seconds(row.trimmed_s)}`
    : row.duration_s === null ? "" : seconds(row.duration_s));

/** A person's reason. */
const because = (row) => (row.decision === "rejected" && row.reason_now ? `“${row.reason_now}”` : "");

/** "video failed", "copy", "accepted"; "" for a kept clip. */
export function markOf(row) {
  const mark = decided(row) || (row.end === "kept" ? "" : endName(row.end));
  return row.is_video ? `video ${mark}`.trim() : mark;
}

/** Returns the text that a screen reader speaks for a clip. isBeyond: it does not match the search. */
export function spoken(row, isBeyond) {
  const parts = [
    row.key,
    row.place && `of ${row.place}`,
    row.is_picture ? "picture" : row.is_video && "video",
    outcome(row),
    because(row),
    near(row) && `similarity ${near(row)}`,
    isBeyond && "no match",
    row.is_picture ? "one frame" : seconds(row.duration_s),
    isTrimmed(row) && `trimmed to ${seconds(row.trimmed_s)}`,
    row.tags.length && `tags ${row.tags.join(", ")}`,
  ];
  return `${parts.filter(Boolean).join(", ")}. ${row.caption}`;
}

/** One number: what its outcome is about, with the bound that it broke, else the one that the view is sorted by. */
export function scoreOf(row, shows) {
  if (because(row)) return because(row);
  if (row.end === "unchosen") return row.left_out.map(({ job, rule }) => `${job}: ${rule}`).join(" · ");
  if (row.end === "copy") return `of ${row.copy_of} · ${number(row.score)}`;
  if (row.reason === "ingest.duplicate") return `the file of ${row.copy_of} again`;
  const sorted = shows && row.value !== null && row.value !== undefined
      ? `${titleOf(shows)} ${textOf(shows, row.value)}` : "";
  if (row.end !== "filtered") return sorted;
  const field = `scores.${row.reason}`, [[side, value] = []] = Object.entries(row.bound ?? {});
  const measured = row.score === undefined ? "" : ` ${textOf(field, row.score)}`;
  const bound = side ? `, ${boundText(field, { is_most: side === "at_most", value })}` : "";
  const score = `${titleOf(field)}${measured}${bound}`;
  return sorted && shows !== field ? `${score} · ${sorted}` : score;
}
