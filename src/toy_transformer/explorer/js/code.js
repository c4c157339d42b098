// The code of a state: one line of text that holds it, for a friend. `code.py` writes and reads the same.
import { addresses, numberAt, replaceNumbers } from "./model.js";
import { brief, readNumber, readRequired, splitStrings } from "./notation.js";

const PREFIX = "TT2";
const PREFIX_BEFORE = "TT1"; // it has no question: it is of those that ask for a and b
const LARGEST_SCALING = 1e6;

/**
 * @typedef {{ weights: import("./model.js").Weights, lengthScaling: number, required: string, strings: string[],
 *   name: string, epoch: number | null }} Shared
 */

/** FNV-1a, in letters and digits. @type {(text: string) => string} */
export function checksum(text) {
  let hash = 2166136261;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 16777619) >>> 0;
  return hash.toString(36);
}

/** @type {(state: Shared) => string} */
export function encode({ weights, lengthScaling, required, strings, name, epoch }) {
  const numbers = Float32Array.from([...addresses(weights).map((at) => numberAt(weights, at)), lengthScaling]);
  const bytes = String.fromCharCode(...new Uint8Array(numbers.buffer));
  const packed = btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  const title = encodeURIComponent(name).replaceAll(".", "%2E");
  const body = [PREFIX, packed, strings.join(","), title, epoch ?? "", required].join(".");
  return `${body}.${checksum(body)}`;
}

/**
 * The state of a code; `like` has weights of the same sizes. Throws an error that says what is wrong.
 * @type {(code: string, like: import("./model.js").Weights) => Shared}
 */
export function decode(code, like) {
  const [prefix, packed, strings, title, epoch, required] = partsOf(code.trim());
  const bytes = Uint8Array.from(atob(packed.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  const places = addresses(like);
  if (bytes.length !== 4 * (places.length + 1)) throw new Error(`it does not hold ${places.length} numbers and κ`);
  const numbers = [...new Float32Array(bytes.buffer)];
  const lengthScaling = numbers[places.length];
  if (!(lengthScaling >= 0 && lengthScaling <= LARGEST_SCALING)) {
    throw new Error(`κ is ${lengthScaling}: expected 0 to ${LARGEST_SCALING}`);
  }
  if (!/^[0-9]{0,4}$/.test(epoch)) throw new Error(`epoch ${brief(epoch)}: expected a whole number`);
  return {
    weights: replaceNumbers(like, places, numbers.slice(0, places.length).map(readNumber)),
    lengthScaling,
    required: prefix === PREFIX_BEFORE ? "ab" : readRequired(required),
    strings: splitStrings(strings),
    name: decodeURIComponent(title),
    epoch: epoch === "" ? null : Number(epoch),
  };
}

/** The parts of a code without its checksum, which is right. @type {(code: string) => string[]} */
function partsOf(code) {
  const parts = code.split(".");
  const expected = { [PREFIX]: 7, [PREFIX_BEFORE]: 6 }[parts[0]];
  if (!expected) throw new Error(`a code begins with ${PREFIX}`);
  if (parts.length !== expected) {
    throw new Error(`a code has ${expected} parts with dots between them, this one has ${parts.length}`);
  }
  if (checksum(parts.slice(0, -1).join(".")) !== parts.at(-1)) throw new Error("something in it is missing or changed");
  return parts.slice(0, -1);
}
