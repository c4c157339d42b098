// The notation of strings, such as "ab{100}", and of numbers: what a person types is read here, or refused.
import { LETTERS, total } from "./model.js";

const MAX_STRINGS = 10;
const LONGEST = 1e15;
const MAX_SPANS = 1000;
/** The largest number that a weight can be set to. */
export const LARGEST = 1000;

/** A long text, cut in its middle. @type {(text: string) => string} */
export const brief = (text) => (text.length <= 24 ? text : `${text.slice(0, 9)}…${text.slice(-14)}`);

/** Letter counts of "ab{100}"; throws an error that says what is wrong. @type {(string: string) => number[]} */
export function parse(string) {
  const counts = [0, 0, 0];
  let [position, spans] = [0, 0];
  while (position < string.length || position === 0) {
    const span = /^([abc])(?:\{0*([1-9][0-9]*)\})?(?!\{)/.exec(string.slice(position));
    if (!span) {
      const found = string[position] === undefined ? "the end" : `'${string.slice(position, position + 8)}'`;
      throw new Error(`“${brief(string)}”, position ${position}: expected a, b, c or such as b{100}, found ${found}`);
    }
    counts["abc".indexOf(span[1])] += span[2] ? Number(span[2]) : 1;
    position += span[0].length;
    if (++spans > MAX_SPANS) throw new Error(`“${brief(string)}”: write repeats as a{100}`);
  }
  if (total(counts) > LONGEST) throw new Error(`“${brief(string)}” is longer than 10^15 letters`);
  return counts;
}

/** Strings with commas between them, each once; throws an error that says what is wrong.
 * @type {(text: string) => string[]} */
export function splitStrings(text) {
  const strings = text.replace(/[,\s]+$/, "").split(",").map((string) => string.trim());
  if (strings.length > MAX_STRINGS) throw new Error(`${strings.length} strings: at most ${MAX_STRINGS} fit`);
  strings.forEach(parse);
  return [...new Set(strings)];
}

/** One canonical string for letter counts: [1, 1, 30] gives "abc{30}". @type {(counts: ArrayLike<number>) => string} */
export const shortForm = (counts) =>
  LETTERS.map((letter, i) => (counts[i] > 1 ? `${letter}{${counts[i]}}` : letter.repeat(counts[i]))).join("");

/** A weight that a person typed; throws an error that says what is wrong. @type {(text: string | number) => number} */
export function readNumber(text) {
  const plain = String(text).trim().replace("−", "-");
  if (!/^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?$/i.test(plain)) {
    throw new Error(`“${brief(String(text))}” is not a number`);
  }
  const number = Math.fround(Number(plain));
  if (Math.abs(number) > LARGEST) throw new Error(`“${brief(plain)}” is too large: at most ${LARGEST} here`);
  return number;
}

/** Some of the letters, in alphabetical order, at least one; throws an error otherwise.
 * @type {(text: string) => string} */
export function readRequired(text) {
  if (!/^(?!$)a?b?c?$/.test(text)) throw new Error(`“${brief(text)}”: expected some of a, b, c, in this order`);
  return text;
}

/** A number with a fixed number of digits, or with a power of ten, and a proper minus.
 * @type {(number: number, digits?: number) => string} */
export function show(number, digits = 2) {
  const text = Math.abs(number) < 1e6 ? number.toFixed(digits) : number.toExponential(1).replace("+", "");
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
}
/** @type {(point: number[]) => string} */
export const vector = ([x, y]) => `(${show(x)}, ${show(y)})`;
/** A whole number with commas; a million and more as it is. @type {(number: number) => string} */
export const thousands = new Intl.NumberFormat("en").format;
/** How many letters, in words. @type {(count: number) => string} */
export const letters = (count) => `${thousands(count)} ${count === 1 ? "letter" : "letters"}`;
