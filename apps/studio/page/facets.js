// Conditions on the values of facts that are texts, inside the condition of the view, where they can be typed as well.

const kText = String.raw`(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")`;
const kWord = new RegExp(`${kText}|\`(?:\\\\.|[^\`\\\\])*\`|[\\p{L}\\p{N}_.-]+|\\s+|.`, "gsu");
const kCompared = new RegExp(`^(.*?)\\s*(?:==\\s*(${kText})|\\s+in\\s*\\[\\s*(${kText}(?:\\s*,\\s*${kText})*)\\s*\\])$`,
    "su");

/** The parts of a condition that a top-level `and` joins; the condition itself, in parentheses, if an `or` is there. */
function partsOf(where) {
  const out = [""];
  let depth = 0, hasOr = false;
  for (const [word] of where.matchAll(kWord)) {
    if (word === "(" || word === "[") ++depth;
    if (word === ")" || word === "]") --depth;
    hasOr ||= !depth && word === "or";
    if (!depth && word === "and") out.push("");
    else out[out.length - 1] += word;
  }
  return hasOr ? [`(${where})`] : out.map((part) => part.trim()).filter(Boolean);
}

/** The values that a part allows the fact to have; null if it says something else. name: as conditions write it. */
function valuesIn(part, name) {
  const [, fact, one, list] = kCompared.exec(part) ?? [];
  if (fact !== name) return null;
  const texts = (one ?? list).match(new RegExp(kText, "gsu"));
  return texts.map((text) => text.slice(1, -1).replace(/\\(.)/gsu, "$1"));
}

/** The values that the condition allows the fact to have; none: any. */
export const valuesOf = (where, name) =>
    new Set(partsOf(where).map((part) => valuesIn(part, name)).find(Boolean) ?? []);

/** The condition with a value of the fact more, or without it if it is there: "set == 'train'", "set in ['train',
 * 'val']". */
export function toggled(where, name, value) {
  const parts = partsOf(where), at = parts.findIndex((part) => valuesIn(part, name));
  const values = valuesOf(where, name);
  if (!values.delete(value)) values.add(value);
  const texts = [...values].map((text) => `'${text.replace(/[\\']/g, "\\$&")}'`);
  const now = texts.length > 1 ? `${name} in [${texts.join(", ")}]` : `${name} == ${texts[0]}`;
  parts.splice(at < 0 ? parts.length : at, at < 0 ? 0 : 1, ...(texts.length ? [now] : []));
  return parts.join(" and ");
}
