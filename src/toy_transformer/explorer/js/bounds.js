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

/** The least and the greatest. @typedef {[number, number]} Range */
/** @typedef {{ letters: number[], leads: number[], values: number[] }} Occurring CLS is no letter: -1 */

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
    /** @type {Occurring[][]} */
    this.occurring = [];
    /** Of each token, and of each head: they are overwritten for each box. */
    this.weights = this.form.scores[0].map(() => /** @type {Range} */ ([0, 0]));
    this.means = this.form.scores.map(() => /** @type {Range} */ ([0, 0]));
  }

  /** Whether logits can be told from 0 at all. */
  get canDecide() {
    return this.margin < this.magnitude;
  }

  /** The least and the greatest logit of the strings of a box, each with room for rounding.
   * @type {(box: Box) => Range} */
  logits({ low, high }) {
    const { c, o, b, F, u } = this.form;
    const least = scoreFactor(this.lengthScaling, low[0] + low[1] + low[2]);
    const greatest = scoreFactor(this.lengthScaling, high[0] + high[1] + high[2]);
    const heads = this.headsOf(low);
    for (let head = 0; head < heads.length; head++) {
      this.weigh(heads[head], low, high, least, greatest);
      meanAtCorners(this.weights, heads[head].values, this.means[head]);
    }
    /** @type {Range} */
    const ends = [c - this.margin * greatest, c + this.margin * greatest];
    for (let head = 0; head < heads.length; head++) addProduct(ends, o[head], this.means[head]);
    for (let unit = 0; unit < u.length; unit++) {
      /** @type {Range} */
      const z = [b[unit], b[unit]];
      for (let head = 0; head < heads.length; head++) addProduct(z, F[unit][head], this.means[head]);
      addProduct(ends, u[unit], geluRange(z));
    }
    return ends;
  }

  /** The tokens that occur, with their values and their scores, which count from the largest of them: a common factor
   * changes no share. The same for all boxes with the same letters. @type {(low: number[]) => Occurring[]} */
  headsOf(low) {
    const set = Number(low[0] > 0) + 2 * Number(low[1] > 0) + 4 * Number(low[2] > 0);
    return (this.occurring[set] ??= this.form.scores.map((scores, head) => {
      const first = this.form.attendCls ? 1 : 0; // the token of the first letter
      const tokens = scores.map((_, i) => i).filter((i) => i < first || low[i - first] > 0);
      const highest = Math.max(...tokens.map((i) => scores[i]));
      return {
        letters: tokens.map((i) => i - first),
        leads: tokens.map((i) => scores[i] - highest),
        values: tokens.map((i) => this.form.values[head][i]),
      };
    }));
  }

  /** The least and the greatest weight of each token; a lead is not above 0, so a greater factor makes it less.
   * @type {(head: Occurring, low: number[], high: number[], least: number, greatest: number) => void} */
  weigh({ letters, leads }, low, high, least, greatest) {
    for (let i = 0; i < letters.length; i++) {
      const atLeast = Math.exp(least * leads[i]);
      const [fewest, most] = letters[i] < 0 ? [1, 1] : [low[letters[i]], high[letters[i]]];
      this.weights[i][0] = fewest * (greatest === least ? atLeast : Math.exp(greatest * leads[i]));
      this.weights[i][1] = most * atLeast;
    }
  }
}

/**
 * The range of a weighted mean. It is monotone in the weight of each token while the others stay, so its extremes are
 * at corners: each token has its least weight or its greatest.
 * @type {(weights: Range[], values: number[], range: Range) => void}
 */
function meanAtCorners(weights, values, range) {
  range[0] = Infinity;
  range[1] = -Infinity;
  for (let corner = 0; corner < 1 << values.length; corner++) {
    let above = 0;
    let below = 0;
    for (let i = 0; i < values.length; i++) {
      const weight = weights[i][(corner >> i) & 1];
      above += weight * values[i];
      below += weight;
    }
    const mean = above / below;
    if (mean < range[0]) range[0] = mean;
    if (mean > range[1]) range[1] = mean;
  }
}

/** Add a factor times one range to another. @type {(to: Range, factor: number, range: Range) => void} */
function addProduct(to, factor, range) {
  to[0] += factor * range[factor < 0 ? 1 : 0];
  to[1] += factor * range[factor < 0 ? 0 : 1];
}

/** GELU falls up to its minimum and rises from there on. @type {(range: Range) => Range} */
function geluRange([low, high]) {
  const [atLow, atHigh] = [gelu(low), gelu(high)];
  const within = low < GELU_MINIMUM && GELU_MINIMUM < high;
  return [within ? gelu(GELU_MINIMUM) : Math.min(atLow, atHigh), Math.max(atLow, atHigh)];
}
