// Whether a model with length scaling is right about every string that is long enough: `all_lengths.py` has the proof.
// This is its argument in float64, with room for rounding on the side of caution: it may miss what Python can prove.
import { isPositive, logitOfMeans } from "./model.js";

const STEEPEST_GELU = 1.13;
const ROUNDING = 1e-12;
const LONGEST = 2e6;

/**
 * What becomes of strings with certain letters as they grow: their logits approach `logit`, and are at most the sum of
 * factor × (n − 1) × n^−exponent away from it.
 * @typedef {{ logit: number, terms: { factor: number, exponent: number }[] }} Limit
 */

/**
 * The length from which on all strings are right; null where the argument does not hold.
 * @type {(bounds: import("./bounds.js").Bounds, setting: import("./model.js").Setting) => number | null}
 */
export function fromLength(bounds, setting) {
  if (!setting.lengthScaling || setting.attendCls) return null;
  const limits = [1, 2, 3, 4, 5, 6, 7].map((set) => limitOf(bounds, setting, [0, 1, 2].filter((i) => (set >> i) & 1)));
  if (limits.some((limit) => limit === null)) return null;
  /** @type {(length: number) => boolean} */
  const decided = (length) =>
    setting.lengthScaling * Math.log(length) >= 1 + ROUNDING && limits.every((limit) => limit && isNear(limit, length));
  let high = 2;
  while (!decided(high)) if ((high *= 2) > LONGEST) return null;
  let low = high / 2;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (decided(middle)) high = middle;
    else low = middle;
  }
  return high;
}

/** Whether all logits of strings of this length and of longer ones have the sign of the limit.
 * @type {(limit: Limit, length: number) => boolean} */
function isNear({ logit, terms }, length) {
  if (terms.some(({ exponent }) => length * (exponent - 1) <= exponent)) return false; // the distance may still grow
  const distances = terms.map(({ factor, exponent }) => factor * (length - 1) * length ** -exponent);
  return distances.reduce((sum, distance) => sum + distance, 0) * (1 + 1e-9) < logit;
}

/**
 * Null where a lead is too small, or the limit is wrong; `logit` is its distance from 0, less the room for rounding.
 * @type {(bounds: import("./bounds.js").Bounds, setting: import("./model.js").Setting, present: number[])
 *   => Limit | null}
 */
function limitOf({ form, sizes, margin }, { required, lengthScaling }, present) {
  const [means, terms] = [/** @type {number[]} */ ([]), /** @type {Limit["terms"]} */ ([])];
  for (let head = 0; head < form.scores.length; head++) {
    const [scores, values] = [form.scores[head], form.values[head]];
    const top = present.reduce((best, letter) => (scores[letter] > scores[best] ? letter : best));
    const others = present.filter((letter) => letter !== top);
    means.push(values[top]);
    const rounding = ROUNDING * Math.max(...sizes.values[head]);
    const reach = Math.max(0, ...others.map((letter) => Math.abs(values[letter] - values[top])));
    if (reach <= rounding) continue; // then the mean is that value, whatever the weights
    const lead = scores[top] - Math.max(...others.map((letter) => scores[letter]));
    const exponent = lengthScaling * (lead - ROUNDING * Math.max(...sizes.scores[head])) * (1 - ROUNDING);
    if (!(exponent > 1 + ROUNDING)) return null;
    terms.push({ factor: steepness(form, sizes, head) * (reach + rounding), exponent });
  }
  const logit = logitOfMeans(form, means);
  const isRight = logit > 0 === isPositive([0, 1, 2].map((i) => Number(present.includes(i))), required);
  return isRight && Math.abs(logit) > margin ? { logit: Math.abs(logit) - margin, terms } : null;
}

/** How much the logit may change for each unit of a head's mean.
 * @type {(form: import("./model.js").Form, sizes: import("./model.js").Form, head: number) => number} */
function steepness(form, sizes, head) {
  const of = (/** @type {import("./model.js").Form} */ { o, F, u }) =>
    u.reduce((sum, weight, unit) => sum + STEEPEST_GELU * Math.abs(weight * F[unit][head]), Math.abs(o[head]));
  return of(form) + ROUNDING * of(sizes);
}
