// The colours of a map's clips by a fact, and their legend.
import { make } from "./elements.js";
import { endName, number } from "./format.js";
import { textOf } from "./names.js";

const kKinds = 8; // colours of texts; rarer ones share the last
const kKindColours = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b5a400", "#888888"];
const kRamp = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]]; // viridis, dark to light
const kOutcomes = ["kept", "filtered", "failed", "copy", "unchosen", "accepted", "rejected"];

/** values: of the fact, one a clip; field "": their outcomes. Returns [colours, items of the legend]. */
export function coloursOf(values, field) {
  if (!field) return byOutcome(values);
  const numbers = values.filter((value) => typeof value === "number");
  return numbers.length ? byNumber(values, numbers, field) : byText(values, field);
}

function byOutcome(values) {
  const found = kOutcomes.filter((name) => values.includes(name));
  return [values.map((name) => `var(--${name === "rejected" ? "failed" : name})`),
      found.map((name) => make("li", {}, make("i", { class: `swatch ${name}` }), ` ${endName(name)}`))];
}

function byNumber(values, numbers, field) {
  const low = numbers.reduce((a, b) => Math.min(a, b)), high = numbers.reduce((a, b) => Math.max(a, b));
  const colour = (value) => (typeof value === "number" ? ramp((value - low) / (high - low || 1)) : "#888");
  return [values.map(colour),
      [0, 0.25, 0.5, 0.75, 1].map((at) => entry(ramp(at), textOf(field, low + at * (high - low))))];
}

function byText(values, field) {
  const counts = new Map();
  for (const value of values) counts.set(value ?? "", (counts.get(value ?? "") ?? 0) + 1);
  const most = [...counts].sort((a, b) =>
      b[1] - a[1] || String(a[0]).localeCompare(String(b[0]))).map(([name]) => name);
  const kind = new Map(most.map((name, at) => [name, Math.min(at, kKinds - 1)])), isMany = most.length > kKinds;
  const named = most.slice(0, isMany ? kKinds - 1 : kKinds).map((name, at) =>
      entry(kKindColours[at], name === "" ? "none" : textOf(field, name)));
  const others = isMany ? [entry(kKindColours[kKinds - 1], `${number(most.length - kKinds + 1)} others`)] : [];
  return [values.map((value) => kKindColours[kind.get(value ?? "")]), [...named, ...others]];
}

function ramp(share) {
  const at = Math.min(Math.max(share, 0), 1) * (kRamp.length - 1), i = Math.min(Math.floor(at), kRamp.length - 2);
  return `rgb(${kRamp[i].map((low, c) => Math.round(low + (at - i) * (kRamp[i + 1][c] - low))).join(" ")})`;
}

function entry(colour, text) {
  const swatch = make("i", { class: "swatch" });
  swatch.style.background = colour;
  return make("li", {}, swatch, ` ${text}`);
}
