// The studio's answers. Everything is asked of the address that the page came from.

async function answer(response) {
  const body = await response.json().catch(() => ({ error: `the studio answered ${response.status}` }));
  if (!response.ok) throw new Error(body.error);
  return body;
}

function gone(error) {
  throw error instanceof TypeError ? new Error("the studio does not answer; start it again with kinora studio") : error;
}

export const get = (path, parameters = {}) => fetch(`${path}?${new URLSearchParams(parameters)}`).then(answer).catch(gone);

export const post = (path, body = {}) =>
  fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }).then(answer).catch(gone);

export const address = (path, id) => `${path}?${new URLSearchParams({ id })}`;

/** What the user looks for; the parameters that the server understands. */
export class Query {
  sets = { end: new Set(), rule: new Set(), decision: new Set() };
  ranges = new Map(); // field -> [low, high]
  text = "";
  sort = "";
  descending = false;

  parameters(more = {}) {
    const out = new URLSearchParams(more);
    for (const [name, values] of Object.entries(this.sets)) for (const value of values) out.append(name, value);
    for (const [field, [low, high]] of this.ranges) out.append("range", `${field}:${low}:${high}`);
    if (this.text) out.set("q", this.text);
    if (this.sort) out.set("sort", this.sort);
    if (this.descending) out.set("desc", "1");
    return out;
  }

  isEmpty() {
    return !this.text && !this.ranges.size && Object.values(this.sets).every((set) => !set.size);
  }

  clear() {
    for (const set of Object.values(this.sets)) set.clear();
    this.ranges.clear();
    this.text = "";
  }
}
