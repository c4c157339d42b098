// What a person types is read, or refused with a reason.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { letters, parse, readNumber, shortForm, splitStrings } from "../../src/toy_transformer/explorer/js/notation.js";

test("strings are read", () => {
  assert.deepEqual(parse("ab{100}"), [1, 100, 0]);
  assert.deepEqual(parse("b{0007}a"), [1, 7, 0]);
  assert.deepEqual(splitStrings("ab, b{7}a ,c, ab,"), ["ab", "b{7}a", "c"]);
});

for (const [text, reason] of [
  ["abd", /“abd”, position 2: expected a, b, c or such as b\{100\}, found 'd'/],
  ["a{0}", /position 0/],
  ["a{", /position 0/],
  ["a{2}{3}", /position 0/],
  ["", /found the end/],
  ["a,,b", /found the end/],
  ["a{9999999999999999}", /longer than/],
  [[..."abcabcabcab"].join(","), /11 strings: at most 10/],
]) {
  test(`“${text}” is refused`, () => assert.throws(() => splitStrings(text), reason));
}

test("a short form is read as the counts that it was written from", () => {
  const count = fc.integer({ min: 0, max: 1e9 });
  fc.assert(fc.property(count, count, count, (a, b, c) => {
    fc.pre(a + b + c > 0);
    assert.deepEqual(parse(shortForm([a, b, c])), [a, b, c]);
  }));
});

test("a number is read, as float32, or refused", () => {
  fc.assert(fc.property(fc.float({ min: -1000, max: 1000, noNaN: true }), (x) => assert.equal(readNumber(String(x)), x + 0)));
  for (const text of ["x", "", "1e9", "0x10", "1,5", "NaN", "Infinity"]) assert.throws(() => readNumber(text));
});

test("one letter is no letters", () => {
  assert.deepEqual([0, 1, 2165].map(letters), ["0 letters", "1 letter", "2,165 letters"]);
});
