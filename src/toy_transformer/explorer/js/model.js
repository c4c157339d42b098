// The model, as `model.py` has it, for heads of size 1 and no norm: the form of its logit, and a trace of one string.

/** The letters of every string. @type {readonly ["a", "b", "c"]} */
export const LETTERS = ["a", "b", "c"];
/** What attention may read. @type {readonly ["CLS", "a", "b", "c"]} */
export const TOKENS = ["CLS", ...LETTERS];
/** @type {readonly ["CLS", "PAD", "a", "b", "c"]} */
export const VOCABULARY = ["CLS", "PAD", ...LETTERS];
/** @type {readonly ["W_Q", "W_K", "W_V", "W_O", "W_in", "W_out", "classifier"]} */
export const MATRICES = ["W_Q", "W_K", "W_V", "W_O", "W_in", "W_out", "classifier"];

/**
 * The numbers of a model by name: an embedding for each token, and the matrices, row by row.
 * @typedef {Record<"CLS" | "PAD" | "a" | "b" | "c", number[]>
 *   & Record<"W_Q" | "W_K" | "W_V" | "W_O" | "W_in" | "W_out" | "classifier", number[][]>} Weights
 */
/**
 * What is asked of a model, and how: the letters that a string must contain, κ, and whether CLS is attended to.
 * @typedef {{ required: string, lengthScaling: number, attendCls: boolean }} Setting
 */
/**
 * The arrays of logit = c + o·m + u·GELU(b + F m), as `logit.py` names them; the tokens of scores and values are the
 * letters, after CLS where that is attended to.
 * @typedef {{ c: number, o: number[], b: number[], F: number[][], u: number[], scores: number[][], values: number[][],
 *   attendCls: boolean }} Form
 */
/** @typedef {{ query: number, keys: number[], values: number[] }} Head */
/** @typedef {{ scores: number[], attentionWeights: number[], result: number }} Attention */
/** @typedef {{ heads: Attention[], path: number[][], logit: number }} Trace */

/** @type {(x: number[], y: number[]) => number} */
export function dot(x, y) {
  let sum = 0;
  for (let i = 0; i < x.length; i++) sum += x[i] * y[i];
  return sum;
}
/** @type {(x: number[]) => number} */
export const total = (x) => x.reduce((sum, number) => sum + number, 0);
/** @type {(matrix: number[][], x: number[]) => number[]} */
export const times = (matrix, x) => matrix.map((row) => dot(row, x));
/** @type {(x: number[], y: number[]) => number[]} */
export const plus = (x, y) => x.map((number, i) => number + y[i]);
/** @type {(matrix: number[][]) => number[][]} */
const columns = (matrix) => matrix[0].map((_, column) => matrix.map((row) => row[column]));

/** The error function, by Kummer's series, whose terms are all positive (Abramowitz and Stegun, 7.1.6). */
export function erf(/** @type {number} */ x) {
  if (Math.abs(x) > 6) return Math.sign(x);
  let [term, sum] = [x, x];
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}
/** @type {(x: number) => number} */
export const gelu = (x) => (x * (1 + erf(x / Math.SQRT2))) / 2;

/** By which scores are multiplied in a string of so many letters.
 * @type {(lengthScaling: number, length: number) => number} */
export const scoreFactor = (lengthScaling, length) =>
  lengthScaling > 0 ? Math.max(1, lengthScaling * Math.log(length)) : 1;

/**
 * What no string changes: for each head the query of CLS, and the keys and values of CLS, a, b, c.
 * @type {(weights: Weights) => Head[]}
 */
export function project(weights) {
  return weights.W_Q.map((row, head) => ({
    query: dot(row, weights.CLS),
    keys: TOKENS.map((token) => dot(weights.W_K[head], weights[token])),
    values: TOKENS.map((token) => dot(weights.W_V[head], weights[token])),
  }));
}

/** @type {(weights: Weights, attendCls: boolean) => Form} */
export function formOf(weights, attendCls) {
  const [classifier] = weights.classifier;
  const [heads, outputs] = [project(weights), columns(weights.W_O)];
  const first = attendCls ? 0 : 1;
  return {
    c: dot(classifier, weights.CLS),
    o: outputs.map((column) => dot(classifier, column)),
    b: times(weights.W_in, weights.CLS),
    F: weights.W_in.map((row) => outputs.map((column) => dot(row, column))),
    u: columns(weights.W_out).map((column) => dot(classifier, column)),
    scores: heads.map(({ query, keys }) => keys.slice(first).map((key) => query * key)),
    values: heads.map(({ values }) => values.slice(first)),
    attendCls,
  };
}

/** @type {(form: Form, means: number[], activation?: (x: number) => number) => number} */
export function logitOfMeans({ c, o, b, F, u }, means, activation = gelu) {
  let logit = c + dot(o, means);
  for (let unit = 0; unit < u.length; unit++) logit += u[unit] * activation(b[unit] + dot(F[unit], means));
  return logit;
}

/** The logit of letter counts, or of shares. @type {(form: Form, counts: number[], lengthScaling: number) => number} */
export function logitOf(form, counts, lengthScaling) {
  const factor = scoreFactor(lengthScaling, total(counts));
  const multiplicities = form.attendCls ? [1, ...counts] : counts;
  const means = form.scores.map((scores, head) => weightedMean(scores, form.values[head], multiplicities, factor));
  return logitOfMeans(form, means);
}

/** @type {(scores: number[], values: number[], multiplicities: number[], factor: number) => number} */
function weightedMean(scores, values, multiplicities, factor) {
  let highest = -Infinity;
  for (let i = 0; i < scores.length; i++) if (multiplicities[i] > 0) highest = Math.max(highest, scores[i]);
  let [above, below] = [0, 0];
  for (let i = 0; i < scores.length; i++) {
    if (multiplicities[i] <= 0) continue;
    const weight = multiplicities[i] * Math.exp(factor * (scores[i] - highest));
    above += weight * values[i];
    below += weight;
  }
  return above / below;
}

/** @type {(head: Head, logMultiplicities: number[], factor: number) => Attention} */
function attend({ query, keys, values }, logMultiplicities, factor) {
  const scores = keys.map((key, i) => factor * query * key + logMultiplicities[i]);
  const highest = Math.max(...scores);
  const exponentials = scores.map((score) => Math.exp(score - highest));
  const sum = total(exponentials);
  const attentionWeights = exponentials.map((exponential) => exponential / sum);
  return { scores, attentionWeights, result: dot(attentionWeights, values) };
}

/**
 * The forward pass for the counts of the letters, step by step, as `model.py` has it.
 * @type {(weights: Weights, counts: number[], setting: { lengthScaling: number, attendCls: boolean },
 *   heads?: Head[]) => Trace}
 */
export function trace(weights, counts, { lengthScaling, attendCls }, projected = project(weights)) {
  const factor = scoreFactor(lengthScaling, total(counts));
  const logMultiplicities = [attendCls ? 0 : -Infinity, ...counts.map(Math.log)];
  const heads = projected.map((head) => attend(head, logMultiplicities, factor));
  const attentionOutput = times(weights.W_O, heads.map((head) => head.result));
  const afterAttention = plus(weights.CLS, attentionOutput);
  const feedForward = times(weights.W_out, times(weights.W_in, afterAttention).map(gelu));
  const transformed = plus(afterAttention, feedForward);
  return { heads, path: [weights.CLS, afterAttention, transformed], logit: dot(weights.classifier[0], transformed) };
}

/** The right answer. @type {(counts: ArrayLike<number>, required: string) => boolean} */
export const isPositive = (counts, required) => [...required].every((letter) => counts["abc".indexOf(letter)] > 0);

/** Where each number of a model is: its name, its row (an embedding has its one row as null) and its column.
 * @typedef {[keyof Weights, number | null, number]} Address */

/** @type {(weights: Weights) => Address[]} */
export const addresses = (weights) => [
  ...VOCABULARY.flatMap((name) => weights[name].map((_, column) => /** @type {Address} */ ([name, null, column]))),
  ...MATRICES.flatMap((name) =>
    weights[name].flatMap((row, i) => row.map((_, column) => /** @type {Address} */ ([name, i, column])))),
];

/** The array that holds a number. @type {(weights: Weights, address: Address) => number[]} */
export const rowAt = (weights, [name, row]) =>
  /** @type {number[]} */ (row === null ? weights[name] : weights[name][row]);

/** @type {(weights: Weights, address: Address) => number} */
export const numberAt = (weights, address) => rowAt(weights, address)[address[2]];

/** @type {(weights: Weights) => Weights} */
export const copyWeights = (weights) => JSON.parse(JSON.stringify(weights));

/** The same, with some of its numbers replaced.
 * @type {(weights: Weights, places: Address[], numbers: ArrayLike<number>) => Weights} */
export function replaceNumbers(weights, places, numbers) {
  const replaced = copyWeights(weights);
  places.forEach((address, i) => (rowAt(replaced, address)[address[2]] = numbers[i]));
  return replaced;
}
