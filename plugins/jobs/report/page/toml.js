// Colours a run file: comments, headings and keys, those of inline tables too.
import { make } from "./elements.js";

const kTokens = /("(?:\\.|[^"\\])*"|'[^']*')|(#.*)|([\w.-]+)(?=\s*=)/g;

/** Each line is parsed alone, so multi-line text may be coloured wrongly; nothing else depends on it. */
function highlighted(line) {
  if (/^\s*\[[^=]*$/.test(line) && /^\s*\[+[\w."' -]+\]+\s*(#.*)?$/.test(line.trimEnd()))
    return [make("b", {}, line)];
  const out = [];
  let from = 0;
  for (const { 0: token, 2: comment, 3: key, index } of line.matchAll(kTokens)) {
    if (!comment && !key) continue; // a string, which may have any sign in it
    out.push(line.slice(from, index), make("span", { class: comment ? "muted" : "name" }, token));
    from = index + token.length;
  }
  return [...out, line.slice(from)];
}

/** The text as elements. */
export const coloured = (toml) => toml.split(/(?<=\n)/).flatMap(highlighted);
