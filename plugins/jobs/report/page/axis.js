// Maps values to positions along an axis, and chooses the round values of its ticks.
import { number, powerOfTen } from "./words.js";

/** The smallest of 1, 2, 5 times a power of ten that is not below `least`. */
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return ([1, 2, 5].find((m) => m * power >= least * (1 - 1e-9)) ?? 10) * power;
}

/** Values low..high with about `wanted` ticks. scale: "linear"; "from zero": linear with zero; "automatic": from zero
 * if that costs
 * little; "logarithmic": of positive values. isRounded: the ends move outwards, to ticks or a little, so that no value
 * touches the
 * frame. Returns {low, high, ticks: [{at, label}], at(value)}, where `at` is a share of the axis, 0 to 1. */
export function makeAxis(low, high, scale, wanted, isRounded) {
  const isLog = scale === "logarithmic", isFromZero = scale === "from zero";
  if (!isLog && low > 0 && (isFromZero || (scale === "automatic" && low < 0.5 * high))) low = 0;
  if (high < 0 && isFromZero) high = 0;
  // what arithmetic has digits for
  const least = isLog ? 1e-290 : 0;
  [low, high] = [low, high].map((value) => (
    Math.abs(value) < 1e-290 ? least : Math.min(Math.max(value, isLog ? least : -1e300), 1e300)));
  if (!(high - low > 1e-9 * Math.max(Math.abs(low), Math.abs(high)))) { // a single value is drawn in the middle
    const room = low === 0 ? 1 : Math.abs(low) * 0.5;
    low -= room;
    high += room;
  }
  const axis = { low, high, ticks: [] };
  axis.at = (value) => {
    const [v, low, high] = [Math.max(value, axis.low), axis.low, axis.high].map(isLog ? Math.log : (x) => x);
    const share = ((isLog ? v : value) - low) / (high - low);
    return Math.min(Math.max(share, 0), 1);
  };
  (isLog ? logTicks : linearTicks)(axis, wanted, isRounded);
  return axis;
}

function linearTicks(axis, wanted, isRounded) {
  let step = niceStep((axis.high - axis.low) / wanted);
  const ticks = () => Math.floor(axis.high / step + 1e-9) - Math.ceil(axis.low / step - 1e-9) + 1;
  while (!isRounded && ticks() < 2) step = niceStep(0.4 * step); // one tick says nothing of the scale
  if (isRounded) {
    axis.low = Math.floor(axis.low / step + 1e-9) * step;
    axis.high = Math.ceil(axis.high / step - 1e-9) * step;
  }
  // As many digits as neighbouring ticks need to differ.
  const widest = Math.max(Math.abs(axis.low), Math.abs(axis.high));
  const digits = Math.min(Math.max(Math.ceil(Math.log10(widest / step) - 1e-9) + 1, 1), 12);
  for (let i = Math.ceil(axis.low / step - 1e-9), last = Math.floor(axis.high / step + 1e-9); i <= last; ++i)
    axis.ticks.push({ at: axis.at(i * step), label: number(i * step, digits) });
}

/** The values m * 10^e, with e a multiple of `every`, that are on the axis. */
function logValues(axis, mantissas, every) {
  const out = [];
  for (let e = Math.floor(Math.log10(axis.low)); e <= Math.ceil(Math.log10(axis.high)); ++e)
    if (e % every === 0) out.push(...mantissas.map((m) => m * 10 ** e).filter((v) => v >= axis.low && v <= axis.high));
  return out;
}

function logTicks(axis, wanted, isRounded) {
  const size = () => Math.log10(axis.high) - Math.log10(axis.low); // the quotient may have no number
  if (isRounded) {
    const room = 10 ** Math.min(0.04 * size(), 5);
    axis.low /= room;
    axis.high *= room;
  }
  const every = Math.max(1, Math.ceil(size() / wanted));
  const all = logValues(axis, [1, 2, 5], 1), powers = logValues(axis, [1], every);
  const isPowers = all.length > wanted + 1 && powers.length > 1;
  const isExtreme = isPowers && (axis.low < 1e-3 || axis.high > 1e5);
  for (const value of isPowers ? powers : all) {
    const exponent = Math.round(Math.log10(value));
    axis.ticks.push({ at: axis.at(value), label: isExtreme && exponent !== 0 ? powerOfTen(exponent) : number(value) });
  }
}
