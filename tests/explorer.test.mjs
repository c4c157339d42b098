// The explorer's logic, without a browser: `test_javascript.py` runs this with node and hands over what Python computes.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { CORNERS, checksum, decode, encode, erf, parse, project, splitStrings, trace } from "../src/toy_transformer/explorer/explorer.js";

const { models, corners, erfs, cases } = JSON.parse(readFileSync(process.env.EXPECTED, "utf8"));

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

/** Marsaglia's xorshift: the same numbers each time. */
function randomIntegers(seed) {
  let x = seed;
  return (end) => {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    return (x >>> 0) % end;
  };
}

test("a spoilt code whose checksum fits is refused, or gives a state that can be", () => {
  const below = randomIntegers(1);
  const characters = "TA0-_.,a{}%2e9é\u0000 /+=";
  let refused = 0;
  for (let i = 0; i < cases; i++) {
    const body = [...encode(state).split(".").slice(0, 5).join(".")];
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
