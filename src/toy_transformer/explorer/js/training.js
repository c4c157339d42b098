// Training by hand: the gradient of the loss, written out, and AdamW, as `training.py` has them, in float64.
import {
  LETTERS, TOKENS, addresses, copyWeights, dot, erf, numberAt, project, replaceNumbers, rowAt, scoreFactor,
} from "./model.js";

/** @typedef {import("./model.js").Weights} Weights */
/** @typedef {{ learningRate: number, weightDecay: number }} Rates */

/** An epoch of the published training: 156 batches of 64 strings. */
export const STEPS_AN_EPOCH = 156;
const MAX_EPOCHS = 30;
/** Beyond this a number is taken to have blown up. */
export const LARGEST_TRAINED = 1000;
const [BETA_1, BETA_2, EPSILON] = [0.9, 0.999, 1e-8];

/** The learning rate falls linearly to its half over 30 epochs. @type {(rate: number, epoch: number) => number} */
export const scheduled = (rate, epoch) => rate * (1 - 0.5 * Math.min(epoch / MAX_EPOCHS, 1));

/** @type {(z: number) => number} */
const normalCdf = (z) => (1 + erf(z / Math.SQRT2)) / 2;
/** @type {(z: number) => number} */
const normalDensity = (z) => Math.exp((-z * z) / 2) / Math.sqrt(2 * Math.PI);

/** The mean loss over a batch, and its derivative by each number: those of the strings, added up.
 * @type {(weights: Weights, batch: import("./strings.js").Batch, setting: import("./model.js").Setting)
 *   => { loss: number, gradient: Weights }} */
export function differentiate(weights, { counts, labels }, setting) {
  const pass = new Pass(weights, setting);
  let loss = 0;
  for (let i = 0; i < counts.length; i++) loss += pass.add(counts[i], labels[i], 1 / counts.length);
  pass.finish();
  return { loss: loss / counts.length, gradient: pass.gradient };
}

/**
 * Forward through the model and back: what each string adds to the gradient. `d` before a name is a derivative by it.
 * It runs ten thousand times an epoch: loops, and arrays that are made once.
 */
class Pass {
  /**
   * @param {Weights} weights
   * @param {import("./model.js").Setting} setting
   */
  constructor(weights, { lengthScaling, attendCls }) {
    this.weights = weights;
    this.lengthScaling = lengthScaling;
    this.tokens = attendCls ? TOKENS : LETTERS;
    this.multiplicities = this.tokens.map(() => 1);
    this.heads = project(weights).map(({ query, keys, values }, head) => new HeadPass(
      query, keys.slice(-this.tokens.length), values.slice(-this.tokens.length), weights.W_O.map((row) => row[head])));
    const [size, units] = [weights.CLS.length, weights.W_in.length];
    this.x = zeros(size);
    this.y = zeros(size);
    this.dx = zeros(size);
    this.dy = zeros(size);
    this.z = zeros(units);
    this.dz = zeros(units);
    this.cdf = zeros(units);
    this.activation = zeros(units);
    const places = addresses(weights);
    this.gradient = replaceNumbers(weights, places, zeros(places.length));
  }

  /** Add one string's part of the gradient; give its loss.
   * @type {(counts: number[], label: boolean, share: number) => number} */
  add(counts, label, share) {
    const first = this.tokens.length - counts.length;
    for (let i = 0; i < counts.length; i++) this.multiplicities[first + i] = counts[i];
    const factor = scoreFactor(this.lengthScaling, counts[0] + counts[1] + counts[2]);
    const logit = this.forward(factor);
    this.back(share * (1 / (1 + Math.exp(-logit)) - Number(label)), factor);
    return Math.max(logit, 0) - (label ? logit : 0) + Math.log1p(Math.exp(-Math.abs(logit)));
  }

  /** @type {(factor: number) => number} */
  forward(factor) {
    const { x, y, z, cdf, activation, heads } = this;
    const { CLS, W_in, W_out, classifier } = this.weights;
    for (let i = 0; i < x.length; i++) x[i] = CLS[i];
    for (const head of heads) {
      head.read(this.multiplicities, factor);
      for (let i = 0; i < x.length; i++) x[i] += head.output[i] * head.mean;
    }
    for (let unit = 0; unit < z.length; unit++) {
      z[unit] = dot(W_in[unit], x);
      cdf[unit] = normalCdf(z[unit]);
      activation[unit] = z[unit] * cdf[unit];
    }
    for (let i = 0; i < y.length; i++) y[i] = x[i] + dot(W_out[i], activation);
    return dot(classifier[0], y);
  }

  /** @type {(dLogit: number, factor: number) => void} */
  back(dLogit, factor) {
    const { x, y, z, dx, dy, dz, cdf, activation, gradient, heads } = this;
    const { W_in, W_out, classifier: [classifier] } = this.weights;
    for (let i = 0; i < y.length; i++) {
      gradient.classifier[0][i] += dLogit * y[i];
      dx[i] = dy[i] = dLogit * classifier[i];
    }
    for (let unit = 0; unit < z.length; unit++) {
      let dActivation = 0;
      for (let i = 0; i < dy.length; i++) {
        gradient.W_out[i][unit] += dy[i] * activation[unit];
        dActivation += dy[i] * W_out[i][unit];
      }
      dz[unit] = dActivation * (cdf[unit] + z[unit] * normalDensity(z[unit]));
      for (let i = 0; i < dx.length; i++) {
        gradient.W_in[unit][i] += dz[unit] * x[i];
        dx[i] += dz[unit] * W_in[unit][i];
      }
    }
    for (let i = 0; i < dx.length; i++) {
      gradient.CLS[i] += dx[i];
      for (let h = 0; h < heads.length; h++) gradient.W_O[i][h] += dx[i] * heads[h].mean;
    }
    for (const head of heads) head.back(dot(dx, head.output), factor);
  }

  /** From queries, keys and values on to the maps and embeddings that they come from: the same for all strings. */
  finish() {
    this.heads.forEach(({ dQuery, dKeys, dValues }, h) => {
      this.backThrough("W_Q", h, "CLS", dQuery);
      this.tokens.forEach((token, t) => {
        this.backThrough("W_K", h, token, dKeys[t]);
        this.backThrough("W_V", h, token, dValues[t]);
      });
    });
  }

  /** @type {(map: "W_Q" | "W_K" | "W_V", h: number, token: "CLS" | "a" | "b" | "c", d: number) => void} */
  backThrough(map, h, token, d) {
    const { gradient, weights } = this;
    for (let i = 0; i < weights[token].length; i++) {
      gradient[map][h][i] += d * weights[token][i];
      gradient[token][i] += d * weights[map][h][i];
    }
  }
}

/** The part of a pass that is one head's. */
class HeadPass {
  /**
   * @param {number} query
   * @param {number[]} keys
   * @param {number[]} values
   * @param {number[]} output
   */
  constructor(query, keys, values, output) {
    this.query = query;
    this.keys = keys;
    this.values = values;
    this.output = output;
    this.weights = zeros(keys.length);
    this.mean = 0;
    this.dQuery = 0;
    this.dKeys = zeros(keys.length);
    this.dValues = zeros(keys.length);
  }

  /** Attention weights, and the mean of the values. @type {(multiplicities: number[], factor: number) => void} */
  read(multiplicities, factor) {
    const { query, keys, values, weights } = this;
    let [highest, sum, above] = [-Infinity, 0, 0];
    for (let t = 0; t < keys.length; t++) if (multiplicities[t]) highest = Math.max(highest, query * keys[t]);
    for (let t = 0; t < keys.length; t++) {
      weights[t] = multiplicities[t] && multiplicities[t] * Math.exp(factor * (query * keys[t] - highest));
      sum += weights[t];
      above += weights[t] * values[t];
    }
    for (let t = 0; t < keys.length; t++) weights[t] /= sum;
    this.mean = above / sum;
  }

  /** @type {(dMean: number, factor: number) => void} */
  back(dMean, factor) {
    for (let t = 0; t < this.keys.length; t++) {
      this.dValues[t] += dMean * this.weights[t];
      const dScore = dMean * this.weights[t] * (this.values[t] - this.mean) * factor;
      this.dKeys[t] += dScore * this.query;
      this.dQuery += dScore * this.keys[t];
    }
  }
}

/** @type {(length: number) => number[]} */
const zeros = (length) => Array(length).fill(0);

/** AdamW (Loshchilov and Hutter 2019), with its memory of gradients, for the numbers of one model. */
export class AdamW {
  /** @param {Weights} weights */
  constructor(weights) {
    this.weights = copyWeights(weights);
    this.places = addresses(weights);
    this.means = zeros(this.places.length);
    this.squares = zeros(this.places.length);
    this.steps = 0;
  }

  /** Take one step; what is `frozen`, and its memory, stays as it is.
   * @type {(gradient: Weights, rates: Rates, frozen?: (address: import("./model.js").Address) => boolean) => void} */
  step(gradient, { learningRate, weightDecay }, frozen = () => false) {
    this.steps++;
    const [first, second] = [1 - BETA_1 ** this.steps, 1 - BETA_2 ** this.steps];
    this.places.forEach((address, i) => {
      if (frozen(address)) return;
      const derivative = numberAt(gradient, address);
      this.means[i] += (1 - BETA_1) * (derivative - this.means[i]);
      this.squares[i] = BETA_2 * this.squares[i] + (1 - BETA_2) * derivative ** 2;
      const row = rowAt(this.weights, address);
      row[address[2]] *= 1 - learningRate * weightDecay;
      row[address[2]] -= (learningRate / first) * (this.means[i] / (Math.sqrt(this.squares[i] / second) + EPSILON));
    });
  }

  /** Whether a number has become too large, or none. */
  get hasBlownUp() {
    return this.places.some((address) => !(Math.abs(numberAt(this.weights, address)) <= LARGEST_TRAINED));
  }
}
