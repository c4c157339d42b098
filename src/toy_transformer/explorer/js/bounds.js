// Bounds of the logit over boxes of letter counts, in float64: `bounds.py` has the same.
//
// Rounding. A float64 operation is off by at most 1.1e-16 of its result. A bound is the outcome of some hundred
// operations, and each of its terms is off by less than 1e-13 of the sum of the magnitudes of all products that it is
// made of; an attention weight is off by as much times the magnitude of its score, which stands in an exponent. So a
// bound is believed where it is farther from 0 than 1e-9 of that sum, or 1e-12 of it times the largest score and the
// factor of the scores: that leaves a factor of thousands for what this count has left out. Nearer to 0, nothing is
// said.
import { formOf, gelu, logitOfMeans, scoreFactor } from "./model.js";

const MARGIN = 1e-9;
const MARGIN_OF_SCORES = 1e-12;
const LEAST = 1e-290; // products of smaller numbers underflow: for the margin, no number counts as smaller
const GELU_MINIMUM = -0.7517915246935645;

/** Letter counts from `low` to `high`, both included: all of its strings have the same letters.
 * @typedef {{ length: number, low: number[], high: number[] }} Box `length` is that of its shortest strings */

/** @type {(of: any, change: (x: number) => number) => any} */
const each = (of, change) => (Array.isArray(of) ? of.map((part) => each(part, change)) : change(of));

/** @type {(values: number[][]) => number[]} */
const largest = (values) => values.map((row) => Math.max(...row));

export class Bounds {
  /**
   * @param {import("./model.js").Weights} weights
   * @param {import("./model.js").Setting} setting
   */
  constructor(weights, { lengthScaling, attendCls }) {
    this.lengthScaling = lengthScaling;
    this.form = formOf(weights, attendCls);
    const sizes = Object.fromEntries(Object.entries(weights).map(([name, numbers]) => [name, each(numbers, Math.abs)]));
    /** The magnitudes of all products, added up without their signs. */
    this.sizes = formOf(/** @type {import("./model.js").Weights} */ (sizes), attendCls);
    const { scores, attendCls: _, ...others } = this.sizes;
    const atLeast = each(Object.values(others), (x) => Math.max(x, LEAST));
    const [c, o, b, F, u, values] = atLeast;
    const largestScore = Math.max(...scores.flat());
    this.magnitude = logitOfMeans(this.sizes, largest(this.sizes.values), Math.abs);
    this.margin = Math.max(MARGIN, MARGIN_OF_SCORES * largestScore)
      * logitOfMeans({ c, o, b, F, u, values, scores, attendCls }, largest(values), Math.abs);
  }

  /** Whether logits can be told from 0 at all. */
  get canDecide() {
    return this.margin < this.magnitude;
  }

  /** The least and the greatest logit of the strings of a box, each with room for rounding.
   * @type {(box: Box) => [number, number]} */
  logits({ low, high }) {
    const { c, o, b, F, u } = this.form;
    const factors = [low, high].map((counts) => scoreFactor(this.lengthScaling, counts[0] + counts[1] + counts[2]));
    const means = this.form.scores.map((_, head) => this.mean(head, low, high, factors));
    const ends = [c - this.margin * factors[1], c + this.margin * factors[1]];
    addProduct(ends, o, means);
    for (let unit = 0; unit < u.length; unit++) {
      const z = [b[unit], b[unit]];
      addProduct(z, F[unit], means);
      addProduct(ends, [u[unit]], [geluRange(z[0], z[1])]);
    }
    return [ends[0], ends[1]];
  }

  /**
   * The range of a head's weighted mean. It is monotone in the weight of each token while the others stay, so its
   * extremes are at corners: each token has its least weight or its greatest.
   * @type {(head: number, low: number[], high: number[], factors: number[]) => [number, number]}
   */
  mean(head, low, high, factors) {
    const [scores, values] = [this.form.scores[head], this.form.values[head]];
    const first = this.form.attendCls ? 1 : 0; // the token of the first letter
    /** @type {number[]} */
    const occurring = [];
    for (let i = 0; i < scores.length; i++) if (i < first || high[i - first] > 0) occurring.push(i);
    // Scores count from the largest of those that occur, for a common factor changes no share.
    const highest = Math.max(...occurring.map((i) => scores[i]));
    const weights = occurring.map((i) => {
      const lead = scores[i] - highest; // not above 0, so the greater factor makes it less
      const [fewest, most] = i < first ? [1, 1] : [low[i - first], high[i - first]];
      return [fewest * Math.exp(factors[1] * lead), most * Math.exp(factors[0] * lead)];
    });
    return meanAtCorners(weights, occurring.map((i) => values[i]));
  }
}

/** @type {(weights: number[][], values: number[]) => [number, number]} */
function meanAtCorners(weights, values) {
  let [least, greatest] = [Infinity, -Infinity];
  for (let corner = 0; corner < 1 << weights.length; corner++) {
    let [above, below] = [0, 0];
    for (let i = 0; i < weights.length; i++) {
      const weight = weights[i][(corner >> i) & 1];
      above += weight * values[i];
      below += weight;
    }
    if (above / below < least) least = above / below;
    if (above / below > greatest) greatest = above / below;
  }
  return [least, greatest];
}

/** Add factor × range for each of some factors and ranges to a range. */
function addProduct(
  /** @type {number[]} */ range,
  /** @type {number[]} */ factors,
  /** @type {number[][]} */ ranges,
) {
  for (let i = 0; i < factors.length; i++) {
    const [low, high] = factors[i] < 0 ? [ranges[i][1], ranges[i][0]] : ranges[i];
    range[0] += factors[i] * low;
    range[1] += factors[i] * high;
  }
}

/** GELU falls up to its minimum and rises from there on. @type {(low: number, high: number) => [number, number]} */
function geluRange(low, high) {
  const [atLow, atHigh] = [gelu(low), gelu(high)];
  const within = low < GELU_MINIMUM && GELU_MINIMUM < high;
  return [within ? gelu(GELU_MINIMUM) : Math.min(atLow, atHigh), Math.max(atLow, atHigh)];
}
