// How a long video leaves its beginning, second by second: a chart of each number of kernels/cpu/drift.hpp.
import { plot } from "./charts.js";
import { make } from "./elements.js";

const kDrift = { mean: "Mean of the channels", spread: "Spread of the channels", histogram: "Histogram of colours",
  sharpness: "Sharpness", saturation: "Saturation", border_jump: "Jump at borders of chunks",
  latent_mean: "Mean of the latents", latent_spread: "Spread of the latents" };

function driftCurve(name, points) {
  const values = points.map(([, y]) => y), low = Math.min(...values), high = Math.max(...values);
  const scale = name === "saturation" ? "from zero" : low > 1e-280 && high >= 10 * low ? "logarithmic" : "automatic";
  return { title: kDrift[name], scale, sigma: 0, points, line: null, ends: [points[0], points.at(-1)] };
}

/** numbers: by name the points [second, value] of each; none for a short video. */
export function driftCharts(numbers) {
  const names = Object.keys(kDrift).filter((name) => numbers[name]?.length);
  if (!names.length) return [];
  return [make("p", { class: "muted" },
      "Drift: each second of the video against its first one, with pixels from 0 to 1. Sharpness below 0: blurred; " +
      "the jump is how much more changes at borders of chunks than between other frames."),
    make("div", { class: "multiples" }, names.map((name) => plot(driftCurve(name, numbers[name]), true, "second")))];
}
