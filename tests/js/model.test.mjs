// The model in the page is that of Python.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { erf, formOf, isPositive, logitOf, project, trace } from "../../src/toy_transformer/explorer/js/model.js";
import { CORNERS } from "../../src/toy_transformer/explorer/js/triangle.js";
import { assertClose, given } from "./given.mjs";

const { models, corners, erfs } = given;

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

test("the form of the logit gives the logit of the trace", () => {
  for (const { weights, counts, options, sizes } of models) {
    const found = logitOf(formOf(weights, options.attendCls), counts, options.lengthScaling);
    assertClose(found, trace(weights, counts, options).logit, sizes.logit, "logit");
  }
});

test("a string is positive if it has all the letters that are asked for", () => {
  const letters = fc.subarray(["a", "b", "c"], { minLength: 1 });
  fc.assert(fc.property(letters, fc.array(fc.constantFrom("a", "b", "c"), { minLength: 1 }), (required, string) => {
    const counts = ["a", "b", "c"].map((letter) => string.filter((each) => each === letter).length);
    assert.equal(isPositive(counts, required.join("")), required.every((letter) => string.includes(letter)));
  }));
});
