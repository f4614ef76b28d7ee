// The groups of a map, with names: clips whose places are near, and the words that most of them have and others have
// not.

const kClipsAGroup = 4; // of a small map; a larger one has kMost groups
const kMost = 8;
const kFewest = 3; // clips of a group with a name
const kRounds = 15;
const kShare = 0.3; // of a group's clips that have a word of its name
const kNear = 0.35; // of the map's diagonal, between groups of one name that are one group
const kCommon = new Set(("the and with for from that this there its are was were has have had his her their our into " +
    "onto over under near while which who they them then than but not can also very more most some another other one " +
    "two three each being been out off about around through between during against clip video scene shot image " +
    "picture camera frame shows showing shown seen view mp4 mov mkv webm avi number copy new final take part " +
    // of the sentences of caption.describe, which say this of most clips
    "very short long evenly lit seconds less mostly almost motion slow moderate fast low medium high contrast " +
    // that say nothing of what is seen
    "some any all how just only above below behind front back left right side top bottom inside outside large small " +
    "big little several many few different various appears appear looks looking standing visible").split(" "));

/** The words of a caption, or else of a file's name, each once: "city_cc0-0001" has "city" and "cc0". */
export function wordsOf(text) {
  const words = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  return new Set(words.filter((word) => word.length > 2 && !/^\d+$/.test(word) && !kCommon.has(word)));
}

/** at: places, captions, files: names; one each. Returns [{name, members: places' indices}], the largest first. Groups
 * without a word in common, of their captions or else of their files, are left out, and so is one group of all. */
export function groupsOf(at, captions, files) {
  if (at.length < kFewest) return [];
  const ofFiles = files.map(wordsOf);
  const all = [captions.map(wordsOf).map((words, i) => (words.size ? words : ofFiles[i])), ofFiles];
  const named = clusters(at).filter((members) => members.length >= kFewest).map((members) => {
    const names = all.map((words) => nameOf(members.map((i) => words[i]), countsOf(words), at.length));
    return { members, name: names.find(Boolean) };
  }).filter(({ name }) => name);
  const groups = joined(named, at).sort((a, b) => b.members.length - a.members.length);
  return groups.length === 1 && groups[0].members.length === at.length ? [] : groups; // one name of all tells nothing
}

function countsOf(sets) {
  const out = new Map();
  for (const words of sets) for (const word of words) out.set(word, (out.get(word) ?? 0) + 1);
  return out;
}

/** One or two words: those that are frequent here, and more frequent than elsewhere. */
function nameOf(sets, all, n) {
  const scored = [...countsOf(sets)].map(([word, count]) => {
    const share = count / sets.length;
    return { word, share, score: share * Math.sqrt(share / (all.get(word) / n)) };
  }).filter(({ share }) => share >= kShare).sort((a, b) => b.score - a.score);
  return scored.filter(({ score }) => score >= 0.8 * scored[0].score).slice(0, 2).map(({ word }) => word).join(", ");
}

/** k-means; the first centres are far from each other, so that equal places give equal groups. */
function clusters(at) {
  const count = Math.min(kMost, Math.max(1, Math.round(Math.sqrt(at.length / kClipsAGroup))));
  const far = ([a, b], [x, y]) => (a - x) ** 2 + (b - y) ** 2;
  const farthest = (from) => at.reduce((best, place) => {
    const least = from.reduce((d, centre) => Math.min(d, far(place, centre)), Infinity);
    return least > best[0] ? [least, place] : best;
  }, [-1, at[0]])[1];
  let centres = [farthest([meanOf(at)])];
  while (centres.length < count) centres.push(farthest(centres));
  let members = [];
  for (let round = 0; round < kRounds; ++round) {
    members = centres.map(() => []);
    at.forEach((place, i) => members[nearest(centres, place, far)].push(i));
    centres = centres.map((centre, c) => (members[c].length ? meanOf(members[c].map((i) => at[i])) : centre));
  }
  return members;
}

function nearest(centres, place, far) {
  let best = 0;
  for (let c = 1; c < centres.length; ++c) if (far(place, centres[c]) < far(place, centres[best])) best = c;
  return best;
}

function meanOf(places) {
  const [x, y] = places.reduce(([a, b], [u, v]) => [a + u, b + v], [0, 0]);
  return [x / places.length, y / places.length];
}

/** The places of a group, from the highest of the half around its middle on: where its name is at home. */
export function inside(places) {
  const [x, y] = meanOf(places), far = ([a, b]) => Math.hypot(a - x, b - y);
  const near = [...places].sort((a, b) => far(a) - far(b)), half = Math.ceil(near.length / 2);
  return [...near.slice(0, half).sort((a, b) => a[1] - b[1]), ...near.slice(half)];
}

/** Neighbours of one name are one group. */
function joined(groups, at) {
  const range = (axis) => at.reduce(([low, high], place) => [Math.min(low, place[axis]), Math.max(high, place[axis])],
      [Infinity, -Infinity]);
  const [left, right] = range(0), [low, high] = range(1), near = kNear * Math.hypot(right - left, high - low);
  const out = [];
  for (const group of groups) {
    const centre = meanOf(group.members.map((i) => at[i]));
    const same = out.find(({ name, centre: [x, y] }) =>
        name === group.name && Math.hypot(x - centre[0], y - centre[1]) <= near);
    if (!same) out.push({ ...group, centre });
    else same.members = [...same.members, ...group.members];
  }
  return out.map(({ name, members }) => ({ name, members }));
}
