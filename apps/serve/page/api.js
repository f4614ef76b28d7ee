// Requests to the server. Each goes to the address that the page came from, with the page's cookie.

/** What the server refuses, in its words. param: the field that is wrong. */
export class Refusal extends Error {
  constructor(message, param = "") {
    super(message);
    this.param = param;
  }
}

let isReader = false;

/** Whether the page was opened with the token of less right: it shows videos, and makes and deletes none. */
export const onlyReads = () => isReader;

async function answer(response) {
  if (response.ok) isReader = response.headers.get("x-kinora-access") === "read";
  const body = await response.json().catch(() => ({}));
  if (response.ok) return body;
  throw new Refusal(body.error?.message ?? `the server answered ${response.status}`, body.error?.param ?? "");
}

function unreachable(error) {
  throw error.name === "AbortError" ? error : new Refusal("the server does not answer; is kinora serve still running?");
}

const ask = (path, options) => fetch(path, options).catch(unreachable).then(answer);

/** signal: of an AbortController; an aborted request fails with an error named AbortError. */
export const get = (path, signal) => ask(path, { signal });

export const remove = (path) => ask(path, { method: "DELETE" });

/** Asks for a video; file: the picture or the video that it begins with. */
export function create(fields, file) {
  const path = "/v1/videos", method = "POST";
  if (!file)
    return ask(path, { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(fields) });
  const body = new FormData();
  for (const [name, value] of Object.entries(fields))
    body.append(name, typeof value === "object" ? JSON.stringify(value) : value);
  body.append("input_reference", file);
  return ask(path, { method, body });
}

export const addressOf = (id) => `/v1/videos/${encodeURIComponent(id)}`;
export const contentOf = (id) => `${addressOf(id)}/content`;

/** How far each second of a finished video is from its first one, as points [second, value] by name; {}: too short. */
export async function driftOf({ id, seconds }, signal) {
  if (!(Number(seconds) >= 3)) return {};
  const all = await get(`${contentOf(id)}?variant=drift`, signal).catch(() => ({}));
  return Object.fromEntries(Object.entries(all).map(([name, values]) => [name,
    values.map((value, i) => [i + 1, value]).filter(([, value]) => Number.isFinite(value))]));
}
