// The explorer's logic, without a browser: `test_javascript.py` runs this with node and hands over what Python computes.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { CORNERS, decode, encode, erf, parse, project, splitStrings, trace } from "../src/toy_transformer/explorer/explorer.js";

const { models, corners, erfs } = JSON.parse(readFileSync(process.env.EXPECTED, "utf8"));

/** Two float64 computations of one quantity: some dozen roundings, each of terms of this size, lie between them. */
function assertClose(found, expected, size, what) {
  const distance = Math.abs(found - expected);
  assert.ok(found === expected || distance <= 1e-13 * size, `${what}: ${found} is ${distance} from ${expected}`);
}

test("the error function is Python's", () => {
  assert.ok(erfs.length > 100);
  for (const [x, expected] of erfs) assertClose(erf(x), expected, Math.abs(expected), `erf(${x})`);
});

test("the triangle has its corners where Python has them", () => {
  const [[left, bottom], [right]] = CORNERS;
  const size = right - left;
  const found = CORNERS.map(([x, y]) => [(x - left) / size, (bottom - y) / size]);
  found.flat().forEach((number, i) => assertClose(number, corners.flat()[i], 1, `corner ${i}`));
});

test("a trace is that of the model in Python", () => {
  assert.equal(models.length, 300);
  models.forEach(({ weights, counts, options, sizes, expected }, model) => {
    const { heads, path, logit } = trace(weights, counts, options);
    const found = {
      query: project(weights).map((head) => head.query),
      keys: project(weights).flatMap((head) => head.keys),
      values: project(weights).flatMap((head) => head.values),
      scores: heads.flatMap((head) => head.scores),
      attentionWeights: heads.flatMap((head) => head.attentionWeights),
      result: heads.map((head) => head.result),
      path: path.flat(),
      logit: [logit],
    };
    assert.deepEqual(Object.keys(found), Object.keys(expected));
    for (const [name, numbers] of Object.entries(found)) {
      assert.equal(numbers.length, expected[name].length);
      numbers.forEach((number, i) =>
        assertClose(number, expected[name][i] ?? -Infinity, sizes[name], `model ${model}, ${name} ${i}`),
      );
    }
  });
});

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

const { weights } = models[0];
const state = { weights: decode(encode({ weights, lengthScaling: 0, strings: ["a"], name: "", epoch: null }), weights).weights };
Object.assign(state, { lengthScaling: 0.5, strings: ["ab", "c{3000}"], name: "x.y é", epoch: 3 });

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
  ["a κ below 0", { lengthScaling: -1 }, /κ is -1/],
  ["a κ beyond all", { lengthScaling: 2e6 }, /κ is 2000000/],
]) {
  test(`a code with ${what} is refused, though its checksum fits`, () =>
    assert.throws(() => decode(encode({ ...state, ...lie }), weights), reason));
}
