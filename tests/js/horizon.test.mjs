// The horizon in the page is that of Python: the same strings, and never another word.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fromLength } from "../../src/toy_transformer/explorer/js/all_lengths.js";
import { Bounds } from "../../src/toy_transformer/explorer/js/bounds.js";
import { SEARCHED_LENGTH, Search } from "../../src/toy_transformer/explorer/js/horizon.js";
import { formOf, isPositive, logitOf } from "../../src/toy_transformer/explorer/js/model.js";
import { given } from "./given.mjs";

const { horizons, adversaries, scaled } = given;

test("the search finds what Python finds", () => {
  assert.ok(horizons.length >= 300);
  let undecided = 0;
  for (const { weights, setting, wrong, rightUpTo } of horizons) {
    const search = new Search(weights, setting).run();
    if (/Not decided/.test(search.sentence)) {
      assert.ok(search.wrong === null && search.rightUpTo <= rightUpTo);
      undecided++;
      continue;
    }
    assert.equal(search.wrong?.string ?? null, wrong);
    assert.equal(search.rightUpTo, rightUpTo);
  }
  // A logit within a billionth of 0 is for Python's balls; among some hundreds of models there is none.
  assert.ok(undecided <= horizons.length / 1000, `${undecided} of ${horizons.length}`);
});

test("adversarial models: it may not decide, but it never contradicts", () => {
  assert.ok(adversaries.length >= 30);
  let decided = 0;
  for (const { what, weights, setting, wrong, rightUpTo } of adversaries) {
    const search = new Search(weights, setting).run();
    // Where Python has decided all, nothing that it found wrong may be called right, nor the other way round.
    if (rightUpTo !== null) assert.ok(search.rightUpTo <= rightUpTo, `${what}: ${search.sentence}`);
    if (search.wrong && rightUpTo !== null) assert.equal(search.wrong.string, wrong, what);
    decided += Number(search.rightUpTo === rightUpTo);
  }
  assert.ok(decided >= 10, `${decided} of ${adversaries.length}`);
});

test("a search that is stopped says how far it is, and goes on to the same end", () => {
  for (const { weights, setting, wrong, rightUpTo } of horizons.slice(0, 50)) {
    const search = new Search(weights, setting);
    let before = 0;
    while (!search.isDone) {
      assert.equal(search.wrong, null);
      assert.ok(search.rightUpTo >= before && search.rightUpTo <= rightUpTo);
      assert.match(search.sentence, /goes on|Wrong/);
      before = search.rightUpTo;
      search.look();
    }
    assert.equal(search.wrong?.string ?? null, wrong);
  }
});

test("what is short is looked at one by one", () => {
  for (const { weights, setting, rightUpTo } of horizons) {
    const form = formOf(weights, setting.attendCls);
    const isRight = (counts) => logitOf(form, counts, setting.lengthScaling) > 0 === isPositive(counts, setting.required);
    for (let length = 1; length <= Math.min(rightUpTo + 1, 12); length++) {
      const all = [];
      for (let a = 0; a <= length; a++) for (let b = 0; a + b <= length; b++) all.push([a, b, length - a - b]);
      assert.equal(all.every(isRight), length <= rightUpTo);
    }
  }
});

test("a model is called right at every length only where Python can prove it", () => {
  let [proved, said] = [0, 0];
  for (const { weights, setting, from } of scaled) {
    const search = new Search(weights, setting).run();
    const says = /every length/.test(search.sentence);
    assert.ok(!says || from !== null, search.sentence);
    if (says) assert.equal(fromLength(new Bounds(weights, setting), setting), from);
    proved += Number(from !== null && from <= SEARCHED_LENGTH);
    said += Number(says);
  }
  assert.ok(proved > 3 && said === proved, `${said} of ${proved}`);
});
