// The lines above the clips: how many of all items the view has, and in which order.
import { kinds, plural } from "./format.js";
import { foundBy, hiddenCopies, nothingFound } from "./found.js";
import { element } from "./status.js";

export const searching = () => (element("summary").textContent = "Searching…");

/** The order and its direction, in words; a search without an order has only one. */
export function showOrder(query) {
  const isByText = query.sort === "key" || query.sort === "caption" || !query.sort;
  element("sort").value = query.sort;
  const isBest = !query.sort && Boolean(query.text || query.like);
  element("order").disabled = isBest;
  element("order").textContent = isBest ? "best first" : query.descending ? (isByText ? "↓ Z to A" : "↓ high first")
      : isByText ? "↑ A to Z" : "↑ low first";
}

/** How many of all items are shown, clips and input videos apart. Hidden copies count in neither. state: the answer of
 * /api/state. */
export function showTotal(total, { query, sheet, state }) {
  const { end, rule, kind } = query.sets, isAll = query.copies || end.size > 0 || rule.size > 0 || kind.has("clip");
  const sum = (counts) =>
      Object.entries(counts.ends).reduce((n, [end, count]) => n + (end === "copy" && !isAll ? 0 : count), 0);
  const { copy: copies = 0 } = state.counts.ends;
  const all = Math.max(total, sum(state.counts)), videos = sum(state.videos);
  const unreadable = state.unreadable ? `; ${plural(state.unreadable, "line")} of items.jsonl cannot be read` : "";
  const mixed = (videos > 0 || sheet.videos > 0) && videos < all; // of videos that were cut, the view may have some
  const isOfOneKind = mixed && total > 0 && [0, total].includes(sheet.videos) && end.size + kind.size > 0;
  const count = total === all || isOfOneKind ? "" : `${total.toLocaleString("en")} of `;
  const whole = isOfOneKind ? kinds(total, sheet.videos) : !mixed ? plural(all, videos ? "video" : "clip")
      : `${plural(all, "item")}${total ? `: ${kinds(total, sheet.videos)}` : ""}`;
  const wrong = state.wrong ? `; ${state.wrong}` : "";
  element("summary").textContent = count + whole + foundBy(sheet, query) + unreadable + wrong;
  element("all").hidden = query.isEmpty();
  element("copies").hidden = !copies;
  element("copies").textContent = `${query.copies ? "Hide" : "Show"} ${copies === 1 ? "1 copy"
      : `${copies.toLocaleString("en")} copies`}`;
  element("nothing").hidden = total > 0;
  element("nothing").textContent = all || copies ? nothingFound(query) + hiddenCopies(sheet.found) : waits(state);
  element("sort").options[0].textContent = sheet.found.by ? "best first" : "in order";
}

function waits({ anew, live }) {
  if (anew.length) return `${anew.join(" and ")} is making its clips anew. They appear here as the job stores them.`;
  if (live.some((job) => !job.done && job.figures && !job.figures.ended))
    return "There are no clips yet. They appear here as the job stores them.";
  return live.some((job) => job.done) ? "The job has ended without any clip or video."
      : "There are no clips yet. They appear here as a job stores them.";
}
