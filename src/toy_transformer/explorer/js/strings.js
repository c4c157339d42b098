// Training strings, as `data.py` draws them, and the numbers that a model begins with, as torch draws them; both from
// a generator of their own, so that a seed gives other ones than in Python.
import { randomGamma, randomLcg, randomNormal, randomUniform } from "d3-random";
import { LETTERS, MATRICES, VOCABULARY } from "./model.js";

/** Some strings as letter counts, and the right answer for each.
 * @typedef {{ counts: number[][], labels: boolean[] }} Batch */
/** @typedef {{ required: string, batchSize: number, maxLength: number, alpha: number }} StringsSetting */

/** How embeddings begin: from the normal distribution, or as the rows of a linear map, which are smaller. */
export const INITIALIZATIONS = /** @type {const} */ (["normal", "linear-like"]);

export class Strings {
  /**
   * @param {StringsSetting} setting
   * @param {number} seed
   */
  constructor({ required, batchSize, maxLength, alpha }, seed) {
    this.required = [...required].map((letter) => "abc".indexOf(letter));
    this.others = [0, 1, 2].filter((i) => !this.required.includes(i));
    const reason = reasonAgainst(required, batchSize);
    if (reason) throw new Error(reason);
    this.setting = { required, batchSize, maxLength, alpha };
    /** The required letters that a string has, once for each string of a batch. */
    this.combinations = this.shares.flatMap((size, set) =>
      Array(size).fill(this.required.filter((_, j) => (set >> j) & 1)));
    this.random = randomLcg(generatorSeed(seed));
    this.gammas = this.required.map((_, i) => randomGamma.source(this.random)(alpha / (i + 1)));
  }

  /** A whole number from 0 on. @type {(end: number) => number} */
  below(end) {
    return Math.floor(end * this.random());
  }

  /** How many strings of a batch are drawn for each combination of required letters: bit j says whether letter j of
   * them occurs. The combination of all gets the largest share. */
  get shares() {
    const combinations = 2 ** this.required.length;
    const parts = combinations + this.required.length + 1;
    const { batchSize } = this.setting;
    const [share, rest] = [Math.floor(batchSize / parts), batchSize % parts];
    const sizes = Array.from({ length: parts }, (_, i) => share + Number(i < rest));
    return [...sizes.slice(0, combinations - 1), sizes.slice(combinations - 1).reduce((sum, size) => sum + size)];
  }

  /** @type {() => Batch} */
  batch() {
    for (let i = this.combinations.length - 1; i > 0; i--) {
      const [j, last] = [this.below(i + 1), this.combinations[i]];
      this.combinations[i] = this.combinations[j];
      this.combinations[j] = last;
    }
    const counts = this.combinations.map((present) => this.string(present));
    return { counts, labels: this.combinations.map((present) => present.length === this.required.length) };
  }

  /** The counts of one string that has these required letters, and any of the others.
   * @type {(present: number[]) => number[]} */
  string(present) {
    const counts = [0, 0, 0];
    const least = Math.max(present.length, 1);
    const length = least + this.below(this.setting.maxLength + 1 - least);
    let places = length;
    if (present.length) {
      const taken = present.length + this.below(length + 1 - present.length);
      places -= taken;
      for (const letter of present) counts[letter] = 1;
      this.divide(taken - present.length, present, counts);
    }
    for (; places > 0; places--) counts[this.others[this.below(this.others.length)]]++;
    return counts;
  }

  /** Divide so many letters in shares that come from a Dirichlet distribution with the total alpha; add them to counts.
   * @type {(number: number, present: number[], counts: number[]) => void} */
  divide(number, present, counts) {
    const gammas = present.map(() => (present.length > 1 ? this.gammas[present.length - 1]() : 1));
    const all = gammas.reduce((sum, gamma) => sum + gamma);
    for (; number > 0; number--) {
      let place = all * this.random();
      let part = 0;
      while (part < gammas.length - 1 && (place -= gammas[part]) >= 0) part++;
      counts[present[part]]++;
    }
  }
}

/** Why there are no such batches; null if there are. @type {(required: string, batchSize: number) => string | null} */
export function reasonAgainst(required, batchSize) {
  if (required.length === LETTERS.length) return "training needs a letter that is not asked for";
  const least = 2 ** required.length;
  if (!(Number.isInteger(batchSize) && batchSize >= least)) return `a batch needs at least ${least} strings`;
  return null;
}

/** @type {(seed: number) => number} */
const generatorSeed = (seed) => (Math.imul(seed + 1, 2654435761) >>> 0) / 2 ** 32;

/**
 * The numbers of a new model of these sizes: PAD is 0.
 * @type {(like: import("./model.js").Weights, kind: typeof INITIALIZATIONS[number], seed: number)
 *   => import("./model.js").Weights}
 */
export function initialize(like, kind, seed) {
  const source = randomLcg(generatorSeed(seed));
  const draw = { normal: randomNormal.source(source)(), uniform: randomUniform.source(source)(-1, 1) };
  const linear = (/** @type {number[]} */ row) => row.map(() => Math.fround(draw.uniform() / Math.sqrt(row.length)));
  const normal = (/** @type {number[]} */ row) => row.map(() => Math.fround(draw.normal()));
  const embeddings = VOCABULARY.map((name) => [name, (kind === "normal" ? normal : linear)(like[name])]);
  const matrices = MATRICES.map((name) => [name, like[name].map(linear)]);
  return { ...Object.fromEntries([...embeddings, ...matrices]), PAD: like.PAD.map(() => 0) };
}
