// What the tests share: the quantities that Python has computed, and how near to them is near enough.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import fc from "fast-check";

fc.configureGlobal({ seed: 0 }); // the same cases each time

/** `test_javascript.py` hands these over. */
export const given = JSON.parse(readFileSync(process.env.EXPECTED, "utf8"));

/** Two float64 computations of one quantity: some dozen roundings, each of terms of this size, lie between them. */
export function assertClose(found, expected, size, what, tolerance = 1e-13) {
  const distance = Math.abs(found - expected);
  assert.ok(found === expected || distance <= tolerance * size, `${what}: ${found} is ${distance} from ${expected}`);
}

/** Marsaglia's xorshift: the same numbers each time. */
export function randomIntegers(seed) {
  let x = seed;
  return (end) => {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    return (x >>> 0) % end;
  };
}
