// The funnel of the run above the sheet. Each step is a filter, and so is what fell before it.
import { make } from "./elements.js";
import { funnel } from "./funnel.js";

/** Conditions of the query: {end, rule, decision, kind, where}, of a step; by: of what fell before it. names: of select
 * jobs; isCut: there are clips of videos; where: of the clips in shards. */
function conditionsOf(step, by, names, isCut, where) {
  const offered = { end: ["kept"], decision: ["accepted", "captioned", "open"] };
  if (by === undefined)
    return { videos: { kind: ["video"] }, inputs: {}, clips: { kind: ["clip"] },
      good: { end: ["kept", "unchosen", "copy"] }, chosen: { end: ["kept"] },
      "in shards": { ...offered, where } }[step];
  if (step === "in shards" && by) return { ...offered, where: where && `not (${where})` };
  if (by === "") return { decision: ["rejected"] };
  if (by === "filtered" || by === "failed")
    return { end: [by], kind: isCut ? [step === "clips" ? "video" : "clip"] : [] };
  return names.includes(by) ? { rule: [by] } : { end: ["copy"] };
}

export class FunnelBar {
  /** changed(): the query has changed. */
  constructor(element, query, changed) {
    Object.assign(this, { element, query, changed });
  }

  /** From /api/state. */
  show({ funnel: steps, choosers }) {
    const text = JSON.stringify([steps, choosers]);
    if (text === this.text) return;
    this.text = text;
    const isCut = steps.some(({ name }) => name === "clips"), { where = "" } = steps.at(-1) ?? {};
    const link = (step, by, children) => make("button",
        { type: "button", class: by === undefined ? "step" : "lost",
        onclick: () => this.choose(conditionsOf(step, by, choosers, isCut, where)) }, children);
    this.element.replaceChildren(...[funnel(steps, link)].filter(Boolean));
    this.element.hidden = !steps.length;
  }

  choose({ where = "", ...conditions }) {
    this.query.clear();
    this.query.where = where;
    for (const [name, values] of Object.entries(conditions))
      for (const value of values) this.query.sets[name].add(value);
    this.changed();
  }
}
