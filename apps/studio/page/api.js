// Requests to the studio. Every request goes to the address that the page came from.

/** The studio does not answer at all, or its answer ends early. */
export class Gone extends Error {}

const kGone = "the studio does not answer; restart it with kinora studio";

async function answer(response) {
  const body = await response.json().catch((error) => {
    if (error.name === "AbortError") throw error;
    if (response.ok) throw new Gone(kGone); // it ended before the end of its answer
    return { error: `the studio answered ${response.status}` };
  });
  if (!response.ok) throw new Error(body.error);
  return body;
}

function gone(error) {
  throw error instanceof TypeError ? new Gone(kGone) : error;
}

/** signal: of an AbortController; an aborted request fails with an error named AbortError. */
export const get = (path, parameters = {}, signal = undefined) => fetch(`${path}?${new URLSearchParams(parameters)}`,
    { signal }).then(answer).catch(gone);

export const post = (path, body = {}) =>
  fetch(path, { method: "POST", headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body) }).then(answer).catch(gone);

export const address = (path, id) => `${path}?${new URLSearchParams({ id })}`;

/** The user's query, with the parameters that the server understands. */
export class Query {
  sets = { end: new Set(), rule: new Set(), decision: new Set(), tag: new Set(), kind: new Set() };
  ranges = new Map(); // field -> [low, high]
  where = ""; // a condition of run files
  text = "";
  like = ""; // id of the clip to compare with
  embedding = ""; // embedding used for the comparison
  words = false; // search the text by words, even if captions are embedded
  copies = false; // also show clips that a dedup job leaves out
  sort = "";
  descending = false;

  parameters(more = {}) {
    const out = new URLSearchParams(more);
    for (const [name, values] of Object.entries(this.sets)) for (const value of values) out.append(name, value);
    for (const [field, [low, high]] of this.ranges) out.append("range", `${field}:${low}:${high}`);
    if (this.where) out.set("where", this.where);
    if (this.text) out.set("q", this.text);
    if (this.text && this.words) out.set("by", "words");
    if (this.like) out.set("like", this.like);
    if (this.like && this.embedding) out.set("embedding", this.embedding);
    if (this.copies) out.set("copies", "1");
    if (this.sort) out.set("sort", this.sort);
    if (this.descending) out.set("desc", "1");
    return out;
  }

  /** The query of such parameters. */
  read(parameters) {
    this.clear();
    for (const [name, set] of Object.entries(this.sets)) for (const value of parameters.getAll(name)) set.add(value);
    for (const text of parameters.getAll("range")) {
      const [, field, low, high] = /^(.*):([^:]*):([^:]*)$/.exec(text) ?? [];
      if (field) this.ranges.set(field, [Number(low), Number(high)]);
    }
    const text = (name) => parameters.get(name) ?? "";
    Object.assign(this,
        { where: text("where"), text: text("q"), words: text("by") === "words", like: text("like"),
        embedding: text("embedding"), copies: text("copies") === "1", sort: text("sort"),
        descending: text("desc") === "1" });
  }

  /** Sets another text, or another clip to compare with. A bound on the similarity belongs to one search only. */
  search({ text = "", like = "", embedding = "" }) {
    Object.assign(this, { text, like, embedding });
    this.ranges.delete("similarity");
  }

  isEmpty() {
    return !this.where && !this.text && !this.like && !this.ranges.size
        && Object.values(this.sets).every((set) => !set.size);
  }

  clear() {
    for (const set of Object.values(this.sets)) set.clear();
    this.ranges.clear();
    this.where = "";
    this.search({});
  }
}
