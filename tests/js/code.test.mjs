// The code of a state: what is in it comes back, and what is spoilt is refused.

import assert from "node:assert/strict";
import { test } from "node:test";
import { checksum, decode, encode } from "../../src/toy_transformer/explorer/js/code.js";
import { parse } from "../../src/toy_transformer/explorer/js/notation.js";
import { given, randomIntegers } from "./given.mjs";

const { cases, codes } = given;
const { weights } = given.models[0];
const state = { weights: decode(encode({ weights, lengthScaling: 0, required: "ab", strings: ["a"], name: "", epoch: null }), weights).weights };
Object.assign(state, { lengthScaling: 0.5, required: "bc", strings: ["ab", "c{3000}"], name: "x.y é", epoch: 3 });

test("a code gives the state back", () => {
  assert.deepEqual(decode(encode(state), weights), state);
  assert.deepEqual(decode(`  ${encode(state)} `, weights), state);
  assert.equal(decode(encode({ ...state, epoch: null }), weights).epoch, null);
});

test("a code of which one letter is missing or changed is refused", () => {
  const code = encode(state);
  for (let i = 0; i < code.length; i++) {
    assert.throws(() => decode(code.slice(0, i) + code.slice(i + 1), weights));
    assert.throws(() => decode(code.slice(0, i) + (code[i] === "0" ? "1" : "0") + code.slice(i + 1), weights));
  }
});

for (const [what, lie, reason] of [
  ["a weight that is no number", { weights: { ...state.weights, a: [NaN, 1] } }, /number/],
  ["a weight without end", { weights: { ...state.weights, a: [Infinity, 1] } }, /number/],
  ["a weight that is too large", { weights: { ...state.weights, a: [5000, 1] } }, /too large/],
  ["a string that is none", { strings: ["<script>"] }, /expected/],
  ["a question that is none", { required: "ba" }, /expected some of/],
  ["no question", { required: "" }, /expected some of/],
  ["a κ below 0", { lengthScaling: -1 }, /κ is -1/],
  ["a κ beyond all", { lengthScaling: 2e6 }, /κ is 2000000/],
]) {
  test(`a code with ${what} is refused, though its checksum fits`, () =>
    assert.throws(() => decode(encode({ ...state, ...lie }), weights), reason));
}

test("Python writes the same code, and its states are read", () => {
  assert.ok(codes.length > 2);
  for (const { code, state } of codes) {
    assert.deepEqual(decode(code, weights), state);
    if (code.startsWith("TT2")) assert.equal(encode(state), code);
  }
});

test("a spoilt code whose checksum fits is refused, or gives a state that can be", () => {
  const below = randomIntegers(1);
  const characters = "TA0-_.,a{}%2e9é\u0000 /+=";
  let refused = 0;
  for (let i = 0; i < cases; i++) {
    const body = [...encode(state).split(".").slice(0, 6).join(".")];
    for (let n = 1 + below(3); n > 0; n--) body.splice(below(body.length), below(3), characters[below(characters.length)]);
    const code = `${body.join("")}.${checksum(body.join(""))}`;
    let found;
    try {
      found = decode(code, weights);
    } catch (error) {
      assert.ok(error instanceof Error && error.message, code);
      refused++;
      continue;
    }
    assert.ok(Object.values(found.weights).flat(2).every((x) => Number.isFinite(x) && Math.abs(x) <= 1000), code);
    assert.ok(found.lengthScaling >= 0 && (found.epoch === null || Number.isInteger(found.epoch)), code);
    found.strings.forEach(parse);
  }
  assert.ok(refused > cases / 10 && refused < cases, `${refused} of ${cases}`);
});
