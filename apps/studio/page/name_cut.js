// Where a name that is too long for its card is cut.

const kTailShare = 0.6; // of the room, for a part that is cut at its own end, too
const kHead = 3; // letters of the beginning that are shown besides a numbered end

/** [where the part begins that is shown, how many of its letters are always shown]. The part is the word in which the
 * name differs from its neighbours, and always the number at the end, and before it another one with its word, such as
 * take-017-0000. room: letters of the whole line. */
export function cut(name, room, neighbours) {
  const tail = Math.max(4, Math.floor(room * kTailShare)), most = Math.max(tail, room - kHead);
  const numbered = name.match(/(\p{L}+[-_ ]?)?\d+[-_]\d+$/u)?.index ?? -1;
  const from = differs(name, neighbours), whole = numbered < 0 ? from : Math.min(from, numbered);
  const hasNumber = /[-_]\d+$/.test(name);
  const lasts = (at) => [at, Math.min(name.length - at, hasNumber ? most : tail)];
  if (from > 0 && (!hasNumber || name.length - whole <= most)) return lasts(whole);
  return lasts(numbered >= 0 ? numbered : lastWords(name, tail));
}

const isWord = (letter) => /[\p{L}\p{N}]/u.test(letter);

/** The place of the word or number in which the name differs. */
function differs(name, neighbours) {
  const same = (other) => [...name].findIndex((letter, at) => letter !== other[at]);
  const start = (at) => {
    while (at > 0 && isWord(name[at - 1])) --at;
    return at;
  };
  return start(Math.max(0, ...neighbours.map(same)));
}

/** The place of the first word of those that fit in as many letters; a longer word is cut itself. */
function lastWords(name, letters) {
  const least = Math.max(0, name.length - letters);
  for (let at = least; at < name.length; ++at) if (at === 0 || (isWord(name[at]) && !isWord(name[at - 1])))
    return at;
  return least;
}
