// The horizon: up to which length a model is right about every string, and the shortest one that it gets wrong.
// The search of `horizon.py`, in the same order, so that both find the same string; it can be stopped and gone on with.
import TinyQueue from "tinyqueue";
import { Bounds } from "./bounds.js";
import { fromLength } from "./all_lengths.js";
import { isPositive, total } from "./model.js";
import { letters, shortForm, thousands } from "./notation.js";

/** So long are the strings that are searched. */
export const SEARCHED_LENGTH = 1e6;
/** After so many boxes the search gives up, as Python's does. */
const MAX_BOXES = 100_000;
const BOXES_TOGETHER = 20;

/** @typedef {import("./bounds.js").Box} Box */
/** @typedef {{ string: string, counts: number[] }} Found */

/** @type {(p: Box, q: Box) => number} */
function inOrder(p, q) {
  if (p.length !== q.length) return p.length - q.length;
  for (let i = 0; i < 3; i++) if (p.low[i] !== q.low[i]) return p.low[i] - q.low[i];
  for (let i = 0; i < 3; i++) if (p.high[i] !== q.high[i]) return p.high[i] - q.high[i];
  return 0;
}

export class Search {
  /**
   * @param {import("./model.js").Weights} weights
   * @param {import("./model.js").Setting} setting
   */
  constructor(weights, setting, maxLength = SEARCHED_LENGTH) {
    this.setting = setting;
    this.maxLength = maxLength;
    this.bounds = new Bounds(weights, setting);
    this.lookedAt = 0;
    /** The shortest string that is wrong, or whose logit is too near 0 to be told. @type {Box | null} */
    this.found = null;
    this.isWrong = false;
    this.boxes = new TinyQueue(this.bounds.canDecide ? allStrings(maxLength) : [], inOrder);
  }

  /** Whether nothing is left to be looked at, or too much was. */
  get isDone() {
    const next = this.boxes.peek();
    return this.lookedAt >= MAX_BOXES || !next || (this.found !== null && next.length >= this.found.length);
  }

  /** The length up to which all strings are known to be right. */
  get rightUpTo() {
    const lengths = [this.boxes.peek()?.length, this.found?.length].filter((length) => length !== undefined);
    return this.bounds.canDecide ? Math.min(this.maxLength, ...lengths.map((length) => length - 1)) : 0;
  }

  /** The shortest wrong string, once it is certain that there is no shorter one. @type {Found | null} */
  get wrong() {
    const wrong = this.isWrong && this.found && this.rightUpTo === this.found.length - 1;
    return wrong && this.found ? { string: shortForm(this.found.low), counts: this.found.low } : null;
  }

  /** Go on until all is done or the time is up: `until` is one of `performance.now()`. */
  run(until = Infinity) {
    while (!this.isDone && performance.now() < until) this.look();
    return this;
  }

  look() {
    const together = Math.min(BOXES_TOGETHER, this.boxes.length);
    this.lookedAt += BOXES_TOGETHER;
    const best = Array.from({ length: together }, () => /** @type {Box} */ (this.boxes.pop()));
    for (const box of best) {
      const [low, high] = this.bounds.logits(box);
      const label = isPositive(box.low, this.setting.required);
      if (label ? low > 0 : high < 0) continue;
      if (box.low.some((count, i) => count !== box.high[i])) {
        const quarters = split(box, this.maxLength).flatMap((half) => split(half, this.maxLength));
        for (const quarter of quarters) this.boxes.push(quarter);
      } else if (this.found === null || box.length < this.found.length) {
        this.found = box;
        this.isWrong = label ? high < 0 : low > 0;
      }
    }
  }

  /** What can be said of all strings, in one sentence. */
  get sentence() {
    const range = (/** @type {number} */ length) => `Right about every string up to ${letters(length)}`;
    if (!this.bounds.canDecide) return "Not decided: rounding may be as large as its logits.";
    if (!this.isDone) return `${range(this.rightUpTo)}, as far as searched; the search goes on.`;
    if (this.wrong) {
      const { string, counts } = this.wrong;
      if (total(counts) === 1) return `Wrong about a string of one letter: ${string}.`;
      return `${range(this.rightUpTo)}; the shortest wrong one is ${string}.`;
    }
    if (this.rightUpTo < this.maxLength && this.rightUpTo + 1 !== this.found?.length) {
      return `${range(this.rightUpTo)}; the search was stopped there, for many logits are near 0.`;
    }
    if (this.found) return `Not decided: the logit of ${shortForm(this.found.low)} is too near 0 to have a sign here.`;
    const from = fromLength(this.bounds, this.setting);
    if (from === null || from > this.maxLength + 1) return `${range(this.maxLength)}; longer ones were not searched.`;
    return `Right about every string of every length: from ${thousands(from)} letters on by a bound, below by search.`;
  }
}

/** One box for each set of letters that occur: its strings have the same right answer.
 * @type {(maxLength: number) => Box[]} */
function allStrings(maxLength) {
  const sets = [1, 2, 3, 4, 5, 6, 7].map((set) => [0, 1, 2].map((i) => (set >> i) & 1));
  return sets
    .filter((low) => total(low) <= maxLength)
    .map((low) => boxOf(low, low.map((occurs) => occurs * maxLength), maxLength));
}

/** A box; no count can be larger than the others leave room for.
 * @type {(low: number[], high: number[], maxLength: number) => Box} */
function boxOf(low, high, maxLength) {
  const length = total(low);
  return { length, low, high: high.map((count, i) => Math.min(count, maxLength - length + low[i])) };
}

/** Halve a box at the geometric mean of the letter whose count is the least certain; a single string stays.
 * @type {(box: Box, maxLength: number) => Box[]} */
function split(box, maxLength) {
  const { low, high } = box;
  const uncertainty = low.map((count, i) => (count ? high[i] / count : 0));
  const letter = uncertainty.indexOf(Math.max(...uncertainty));
  if (uncertainty[letter] === 1) return [box];
  const middle = Math.floor(Math.sqrt(low[letter] * high[letter]));
  const lower = { ...box, high: high.with(letter, middle) };
  const upper = low.with(letter, middle + 1);
  return total(upper) > maxLength ? [lower] : [lower, boxOf(upper, high, maxLength)];
}
