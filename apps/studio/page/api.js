// The studio's answers. Everything is asked of the address that the page came from.

async function answer(response) {
  const body = await response.json().catch(() => ({ error: `the studio answered ${response.status}` }));
  if (!response.ok) throw new Error(body.error);
  return body;
}

/** The studio itself is not there, which is no answer of its. */
export class Gone extends Error {}

function gone(error) {
  throw error instanceof TypeError ? new Gone("the studio does not answer; start it again with kinora studio") : error;
}

/** signal: of an AbortController; the answer that nobody wants any more is an error named AbortError. */
export const get = (path, parameters = {}, signal = undefined) => fetch(`${path}?${new URLSearchParams(parameters)}`, { signal }).then(answer).catch(gone);

export const post = (path, body = {}) =>
  fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }).then(answer).catch(gone);

export const address = (path, id) => `${path}?${new URLSearchParams({ id })}`;

/** What the user looks for; the parameters that the server understands. */
export class Query {
  sets = { end: new Set(), rule: new Set(), decision: new Set() };
  ranges = new Map(); // field -> [low, high]
  text = "";
  like = ""; // id of a clip
  embedding = ""; // in which others are near to it
  words = false; // the text is looked for by its words, whatever is embedded
  copies = false; // what a dedup job leaves out is shown too
  sort = "";
  descending = false;

  parameters(more = {}) {
    const out = new URLSearchParams(more);
    for (const [name, values] of Object.entries(this.sets)) for (const value of values) out.append(name, value);
    for (const [field, [low, high]] of this.ranges) out.append("range", `${field}:${low}:${high}`);
    if (this.text) out.set("q", this.text);
    if (this.text && this.words) out.set("by", "words");
    if (this.like) out.set("like", this.like);
    if (this.like && this.embedding) out.set("embedding", this.embedding);
    if (this.copies) out.set("copies", "1");
    if (this.sort) out.set("sort", this.sort);
    if (this.descending) out.set("desc", "1");
    return out;
  }

  /** Another text, or another clip to be like; a bound on how near is of one search alone. */
  search({ text = "", like = "", embedding = "" }) {
    Object.assign(this, { text, like, embedding });
    this.ranges.delete("similarity");
  }

  isEmpty() {
    return !this.text && !this.like && !this.ranges.size && Object.values(this.sets).every((set) => !set.size);
  }

  clear() {
    for (const set of Object.values(this.sets)) set.clear();
    this.ranges.clear();
    this.search({});
  }
}
