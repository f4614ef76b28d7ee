// What a search and its conditions have found, in words.

const kTelling = 0.6; // of the clips found: if more of them match, a search tells little

/** How many clips of a search match, where that tells them apart. */
function matches({ unmatched, matching, total }) {
  if (typeof unmatched !== "number") return "";
  if (matching > kTelling * total) return "; so many match that it tells little: look at the first ones";
  return `; ${matching.toLocaleString("en")} match${matching === 1 ? "es" : ""}, the dimmed ones do not`;
}

/** How the clips were found: by meaning, and whether any matches, or by words, and why not by meaning if that was
 * requested. */
export function foundBy(sheet, query) {
  const { by, why } = sheet.found;
  if (by === "meaning" && why) return `; ${why}; these are the nearest`;
  if (by === "meaning") return `, nearest in meaning first${matches(sheet)}`;
  if (by === "pictures") return `, most like ${query.like.split("/").slice(1).join("/")} first`;
  return by === "words" && why ? `, by words: ${why}` : "";
}

/** What to do about an empty view. */
export function nothingFound(query) {
  if (!query.text && !query.like) return "No clip meets these conditions. Show all clears them.";
  const what = query.text ? `Nothing found for “${query.text}”` : "No similar clip found";
  const narrowed = query.where || query.ranges.size || Object.values(query.sets).some((set) => set.size);
  return query.text && narrowed ? `${what} with these filters. Show all clears the search and the filters.`
      : `${what}. Show all clears the search.`;
}

/** How many copies meet the conditions of an empty view. */
export const hiddenCopies = ({ hidden }) =>
    (hidden ? ` ${hidden === 1 ? "1 hidden copy" : `${hidden.toLocaleString("en")} hidden copies`}; press c.` : "");
