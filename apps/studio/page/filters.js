// The conditions: outcomes, rules, decisions and texts as toggle buttons, numbers as histograms.
import { get } from "./api.js";
import { Bounds } from "./bounds.js";
import { column } from "./charts.js";
import { make } from "./elements.js";
import { toggled, valuesOf } from "./facets.js";
import { kinds } from "./format.js";
import { endsOf, textOf, titleOf, whereName } from "./names.js";
import { scaleOf } from "./scale.js";

const kNames = { kept: "Kept", copy: "Copies", unchosen: "Left out", filtered: "Filtered", failed: "Failed",
    accepted: "Accepted", rejected: "Rejected", captioned: "Caption edited", open: "Not reviewed",
    video: "Input videos", clip: "Clips, also copies" };
// Numbers that say little about a clip's content; they are available, but folded away.
const kFolded = /^(start_s|end_s|first_frame|end_frame|frames|rotation|fps|audio\..*|embeddings\..*|usage\..*)$/;

const kMarked = new Set(["decision accepted", "decision rejected"]); // on the cards, in their colour

const kLastShown = 2;

/** The order of histograms: what a stage bounds, other scores, other numbers; then what says little, and what has two
 * values only. */
function rank(h) {
  if (h.field === "similarity") return -1;
  if (h.bounds.length) return 0;
  if (kFolded.test(h.field) || h.all.length < 3) return kLastShown + 1;
  return h.field.startsWith("scores.") ? 1 : 2;
}

/** The order of names by the number at their start, "below 720 lines" before "720 lines"; the others come last. */
function byNumber(...names) {
  const [a, b] = names.map((name) => {
    const [, below, digits] = /^(below )?(?:from )?(\d+)/.exec(name) ?? [];
    return digits ? Number(digits) - (below ? 0.5 : 0) : Number.MAX_VALUE;
  });
  return a - b;
}

/** Below a histogram: its smallest and its largest number with words for them, and which end is better. */
function ends(h, text, isLog) {
  const { low, high, better } = endsOf(h.field, h.bounds), words = [low, high].map((word, at) =>
      (better !== (at ? "high" : "low") ? word : word ? `${word} (better)` : "better"));
  const [first, last] = [h.low, h.whole ? h.high - 1 : h.high].map((value, at) => make("span", {},
      ...(words[at] ? [make("i", {}, words[at])] : []), text(value)));
  return make("div", { class: "ends" }, first, ...(isLog ? [make("span", { title: "Logarithmic scale" }, "log")] : []),
      last);
}

export class Filters {
  /** page: {say, failed, rewritten: called when a choice has written the query's condition}. */
  constructor(conditions, numbers, query, changed, page) {
    const { rewritten } = page;
    Object.assign(this, { conditions, numbers, query, changed, rewritten, bounds: new Bounds(page), histograms: [] });
    this.first = new Promise((resolve) => (this.told = resolve)); // histograms are there
    numbers.addEventListener("keydown", (event) => this.arrows(event));
    this.isFolded = true;
  }

  /** From /api/state: counts of all items and of input videos only, tags with their counts, and the facets. */
  showCounts({ counts, videos, tags = [], facets = [], choosers = [] }) {
    this.choosers = choosers;
    const rejected = counts.kept_rejected;
    const ofWhich = (value) => (value === "kept" && rejected ? `, ${rejected.toLocaleString("en")} rejected` : "");
    const group = (title, name, entries, of) =>
      entries.length
        ? make("div", { class: "group", role: "group", "aria-label": title }, make("h2", {}, title),
            make("div", { class: "choices" },
                entries.map(([value, n], at) =>
                  this.choice(name, value, n ? kinds(n, of[value] ?? 0) + ofWhich(value) : "", at))))
        : null;
    const ordered = (names, of) => names.filter((name) => of[name]).map((name) => [name, of[name]]);
    const focused = document.activeElement?.dataset?.choice;
    this.conditions.replaceChildren(
      ...[
        group("Outcome", "end", ordered(["kept", "unchosen", "copy", "filtered", "failed"], counts.ends), videos.ends),
        group("Left out by", "rule", Object.entries(counts.rules), videos.rules),
        group("Decision", "decision", ordered(["accepted", "rejected", "captioned", "open"], counts.decisions),
            videos.decisions),
        group("Tags", "tag", tags, videos.tags),
        ...facets.map((one) => this.facet(one, counts.facets[one.field], videos.facets[one.field] ?? {})),
        group("Kind", "kind", [...this.query.sets.kind].map((kind) => [kind]), {}), // the funnel sets it
      ].filter(Boolean),
    );
    if (focused) [...this.conditions.querySelectorAll("button")].find((button) =>
        button.dataset.choice === focused)?.focus();
  }

  choice(name, value, count, at) {
    const set = this.query.sets[name];
    const press = () => {
      set.has(value) ? set.delete(value) : set.add(value);
      this.changed();
    };
    return make(
      "button",
      { type: "button", "data-choice": `${name} ${value}`, "aria-pressed": set.has(value), onclick: press },
      make("span", {}, ...(name === "end" || kMarked.has(`${name} ${value}`)
          ? [make("i", { class: `swatch ${value}` })] : []),
          ...(name === "tag" ? [...(at < 9 ? [make("kbd", {}, at + 1), " "] : []), value]
          : [kNames[value]
          ?? (name === "rule" && this.choosers.includes(value) ? `Left out by ${value}` : name === "rule" && value
          ? `${titleOf(`scores.${value}`)} (${value})` : value || "no name")])),
      make("span", { class: "muted" }, count),
    );
  }

  /** A fact that is a text: its values are conditions of the view; those of one name are one. of: clips by value. */
  facet({ field, name }, of, videos) {
    const chosen = valuesOf(this.query.where, name), title = titleOf(field), named = new Map();
    for (const value of Object.keys(of)) {
      const text = textOf(field, value) || "no text";
      named.set(text, [...(named.get(text) ?? []), value]);
    }
    const press = (values, isOn) => {
      for (const value of values)
        if (chosen.has(value) === isOn) this.query.where = toggled(this.query.where, name, value);
      this.rewritten();
      this.changed();
    };
    const choices = [...named].sort(([a], [b]) => byNumber(a, b)).map(([text, values]) => {
      const isOn = values.some((value) => chosen.has(value));
      const sum = (counts) => values.reduce((n, value) => n + (counts[value] ?? 0), 0);
      return make("button", { type: "button", "data-choice": `${field} ${values[0]}`, "aria-pressed": isOn,
        onclick: () => press(values, isOn) }, make("span", {}, text),
          make("span", { class: "muted" }, kinds(sum(of), sum(videos))));
    });
    return make("div", { class: "group", role: "group", "aria-label": title },
        make("h2", {}, make("span", { title: field }, title, " ", make("code", { class: "muted" }, name))),
        make("div", { class: "choices" }, choices));
  }

  clear() {
    this.query.clear();
    this.changed();
  }

  async showNumbers() {
    this.asking?.abort();
    const { signal } = (this.asking = new AbortController());
    const all = await get("/api/histograms", this.query.parameters(), signal);
    signal.throwIfAborted();
    this.histograms = all;
    this.told();
    const focused = document.activeElement?.dataset?.bar;
    const groups = all.sort((a, b) => rank(a) - rank(b)).map((h) => [rank(h) > kLastShown, this.histogram(h)]);
    const folded = groups.filter(([hidden]) => hidden).map(([, group]) => group);
    const fold = make("details",
        { "aria-label": "Other numbers", open: !this.isFolded,
        ontoggle: (event) => (this.isFolded = !event.target.open) }, make("summary", {}, "Other numbers"), folded);
    this.numbers.replaceChildren(...groups.filter(([hidden]) => !hidden).map(([, group]) => group),
        ...(folded.length ? [fold] : []));
    if (focused) [...this.numbers.querySelectorAll("button")].find((button) => button.dataset.bar === focused)?.focus();
  }

  histogram(h) {
    const largest = Math.max(...h.all), { edge: from } = scaleOf(h), isLog = h.edges?.length > 0;
    const range = this.query.ranges.get(h.field), text = (value) => textOf(h.field, value), title = titleOf(h.field);
    const near = isLog ? 0 : (h.high - h.low) / h.all.length / 1e6; // edges are numbers of the answer
    const isIn = (i) => range && from(i) >= range[0] - near && from(i + 1) <= range[1] + near;
    const bars = h.all.map((n, i) => {
      const name = h.whole ? text(from(i)) : `${text(from(i))} to ${text(from(i + 1))}`;
      const label = `${name}: ${h.shown[i]} of ${n}`;
      return make("button",
          { type: "button", "aria-label": label, title: label, "aria-pressed": Boolean(isIn(i)), tabIndex: -1,
          "data-bar": `${h.field} ${i}` }, column(n, h.shown[i], largest));
    });
    bars[0].tabIndex = 0;
    const box = make("div", { class: "bars", role: "toolbar", "aria-label": title }, bars),
    [lines, about] = this.bounds.of(h);
    this.ranges(box, bars, h.field, from);
    const clear = range && make("button",
        { type: "button", "aria-label": `Clear ${title}`, onclick: () => this.set(h.field, null) },
        `${text(range[0])}–${text(range[1])} ×`);
    return make(
      "div",
      { class: "group" },
      make("h2", {}, make("span", { title: h.field }, title,
          ...(h.field === "similarity" ? [] : [" ", make("code", { class: "muted" }, whereName(h.field))])), clear),
      make("div", { class: "plot" }, box, ...lines),
      ends(h, text, isLog),
      ...about,
    );
  }

  set(field, range) {
    if (range) this.query.ranges.set(field, range);
    else this.query.ranges.delete(field);
    this.changed();
  }

  /** A click selects one bar, dragging several; Shift extends the selection. The same selection again clears it. */
  ranges(box, bars, field, from) {
    let start = -1;
    const end = (last) => {
      const [a, b] = [Math.min(start, last), Math.max(start, last)], old = this.query.ranges.get(field);
      start = -1;
      this.set(field, old && old[0] === from(a) && old[1] === from(b + 1) ? null : [from(a), from(b + 1)]);
    };
    const under = (event) =>
        bars.indexOf(document.elementFromPoint(event.clientX,
        box.getBoundingClientRect().bottom - 3)?.closest("button"));
    box.addEventListener("pointerdown", (event) => (start = bars.indexOf(event.target.closest("button"))));
    box.addEventListener("pointerup", (event) => {
      const last = under(event);
      if (start >= 0) end(last >= 0 ? last : start);
    });
    box.addEventListener("keydown", (event) => {
      const at = bars.indexOf(event.target);
      if (at < 0 || (event.key !== "Enter" && event.key !== " ")) return;
      event.preventDefault();
      const old = event.shiftKey && this.query.ranges.get(field);
      if (old) return this.set(field, [Math.min(old[0], from(at)), Math.max(old[1], from(at + 1))]);
      start = at;
      end(at);
    });
  }

  /** A histogram is one stop of the Tab key; arrows move between its bars. */
  arrows(event) {
    const bar = event.target.closest(".bars button");
    if (!bar) return;
    const bars = [...bar.parentElement.children], at = bars.indexOf(bar);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: bars.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const next = bars[Math.min(Math.max(to, 0), bars.length - 1)];
    bar.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }
}
