// Building blocks that several sections of the report share.
import { make, styled } from "./elements.js";
import { byteSize, count, counted, number } from "./words.js";

/** A section, or nothing if it has no contents. */
export const section = (id, title,
    ...children) => (children.flat().length
    ? [make("section", { id, "aria-labelledby": `${id}-title` }, make("h2", { id: `${id}-title` }, title), ...children)]
    : []);

export const note = (text, more = "") => make("p", { class: `note ${more}` }, text);

/** A link to a file in a job's folder. */
export const fileOf = (job, name) => make("a", { href: `${job.folder}/${name}` }, name);

/** A note about the rest of a list that the page cuts; nothing if there is none. where: texts and links. */
export const rest = (more, one, ...where) => (more ? [note([counted(more, one), ...where])] : []);

/** The elements that `draw` makes of each job, after the job's name if the run has several of its kind, and what is
 * missing if it did not
 * finish. always: makes something of every job, also of an unfinished one. */
export function eachJob(jobs, draw, always = () => []) {
  return jobs.flatMap((job) => [
    ...(jobs.length > 1 ? [make("h3", {}, job.name)] : []),
    ...(job.missing ? [note(`The results of job “${job.name}” are missing: ${job.missing}.`)] : draw(job)),
    ...always(job),
  ]);
}

/** A region that scrolls sideways. */
export const scrolling = (name, more, ...children) => make("div",
    { class: `scroll ${more}`, role: "region", tabIndex: 0, "aria-label": name }, ...children);

/** facts: [name, text]; those without a text are left out. */
export function factList(facts) {
  const told = facts.filter(([, text]) => text);
  return told.length
      ? [make("dl", { class: "facts" },
      told.map(([name, text]) => make("div", {}, make("dt", {}, name), make("dd", {}, text))))] : [];
}

function factText(name, value) {
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.map((member) => factText("", member)).filter(Boolean).join(" × ");
  if (typeof value !== "number") return typeof value === "string" ? value : "";
  if (name === "bytes") return byteSize(value);
  if (name === "psnr") return `${number(value)}\u00A0dB`;
  return Number.isSafeInteger(value) ? count(value) : number(value, 4);
}

// The chart and the figures above it have the mean of the last steps.
const factName = (name) =>
    (name === "loss" ? "loss of the last step alone" : name === "psnr" ? "PSNR" : name.replaceAll("_", " "));

/** The counts and figures of a job's summary, for factList: "latent_shape" is "latent shape". */
export const factsOf = ({ facts }) => facts.map(({ name, value }) => [factName(name), factText(name, value)]);

/** columns: [title, "n" for numbers or "t" for text]; rows: cells as texts, as [text, more classes] or as elements; the
 * first names its row. more: classes. */
export function table(title, columns, rows, more = "") {
  const cell = (content, i) => {
    const [text, more] = Array.isArray(content) ? content : [content, ""];
    return make(i ? "td" : "th", { class: `${columns[i][1]} ${more}`, scope: i ? null : "row" }, text);
  };
  const head = columns.map(([name, kind]) => make("th", { scope: "col", class: kind }, name));
  return scrolling(title, `tabular ${more} ${rows.length < 13 ? "short" : ""}`,
      make("table", {}, make("caption", {}, title), make("thead", {}, make("tr", {}, head)),
      make("tbody", {}, rows.map((row) => make("tr", {}, row.map(cell))))));
}

/** Frames side by side, each of width / height, with gaps between them. */
export function strip(image, { width, height }, alt) {
  const frames = Math.round((image.width * height) / (image.height * width));
  const out = picture(image, alt);
  return image.uri && frames > 1 ? styled(make("div", { class: "frames" }, out), { "--frames": frames }) : out;
}

/** image: {uri} or {reason}, {width, height}. Without a picture, a blank of the same shape with the reason. */
export function picture({ uri, reason, width = 16, height = 9 }, alt) {
  if (uri) return make("img", { src: uri, width, height, alt });
  return styled(make("div", { class: "blank" }, make("span", {}, `No picture: ${reason}`)),
      { "aspect-ratio": `${width} / ${height}` });
}
