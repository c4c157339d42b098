// Training in the page is that of Python: the gradient, the optimizer, the strings.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { VOCABULARY, addresses, numberAt } from "../../src/toy_transformer/explorer/js/model.js";
import { Strings, initialize } from "../../src/toy_transformer/explorer/js/strings.js";
import { AdamW, STEPS_AN_EPOCH, differentiate, scheduled } from "../../src/toy_transformer/explorer/js/training.js";
import { OPTIONS, Trainer, readOption } from "../../src/toy_transformer/explorer/js/trainer.js";
import { assertClose, given } from "./given.mjs";

const { gradients, trained, drawn, like } = given;
const flat = (weights) => addresses(weights).map((address) => numberAt(weights, address));
const largest = (numbers) => Math.max(1e-300, ...numbers.map(Math.abs));

test("the gradient is that of autograd", () => {
  assert.ok(gradients.length >= 20);
  for (const { weights, batch, setting, loss, gradient } of gradients) {
    const found = differentiate(weights, batch, setting);
    assertClose(found.loss, loss, Math.max(loss, 1), "loss", 1e-12);
    const expected = flat(gradient);
    flat(found.gradient).forEach((number, i) =>
      assertClose(number, expected[i], largest(expected), `number ${addresses(weights)[i]}`, 1e-10));
  }
});

test("AdamW and the schedule are those of training.py, over 300 steps on the same batches", () => {
  const { weights, batches, setting, rates, final } = trained;
  assert.equal(batches.length, 300);
  const optimizer = new AdamW(weights);
  batches.forEach((batch, step) => {
    const { gradient } = differentiate(optimizer.weights, batch, setting);
    const learningRate = scheduled(rates.learningRate, Math.floor(step / trained.stepsAnEpoch));
    optimizer.step(gradient, { ...rates, learningRate });
  });
  const expected = flat(final);
  flat(optimizer.weights).forEach((number, i) => assertClose(number, expected[i], 1, `number ${i}`, 1e-9));
});

test("what is frozen stays, and the rest learns", () => {
  const weights = initialize(like, "normal", 3);
  const optimizer = new AdamW(weights);
  const strings = new Strings({ required: "ab", batchSize: 64, maxLength: 10, alpha: 1 }, 0);
  const setting = { required: "ab", lengthScaling: 0, attendCls: false };
  for (let i = 0; i < 20; i++) {
    const { gradient } = differentiate(optimizer.weights, strings.batch(), setting);
    optimizer.step(gradient, { learningRate: 0.01, weightDecay: 0.01 }, ([name]) => name === "W_Q");
  }
  assert.deepEqual(optimizer.weights.W_Q, weights.W_Q);
  assert.notDeepEqual(optimizer.weights.W_K, weights.W_K);
});

test("a batch has the shares of Python's, exactly", () => {
  for (const { required, batchSize, shares } of drawn.shares) {
    const strings = new Strings({ required, batchSize, maxLength: 10, alpha: 1 }, 1);
    assert.deepEqual(strings.shares, shares);
    const { counts, labels } = strings.batch();
    assert.equal(counts.length, batchSize);
    const sets = counts.map((each) => [...required].reduce((set, letter, j) => set + (each["abc".indexOf(letter)] > 0) * 2 ** j, 0));
    assert.deepEqual(shares.map((_, set) => sets.filter((each) => each === set).length), shares);
    assert.deepEqual(labels, sets.map((set) => set === shares.length - 1));
  }
});

test("strings are distributed as Python's", () => {
  for (const { setting, numStrings, frequencies } of drawn.distributions) {
    const found = {};
    const strings = new Strings(setting, 5);
    for (let n = 0; n < numStrings; n += setting.batchSize) {
      for (const counts of strings.batch().counts) found[counts] = (found[counts] ?? 0) + 1;
    }
    // Pearson's chi squared of two samples of one size; rare strings are counted together.
    let [chi, cells, rare] = [0, 0, [0, 0]];
    const add = (x, y) => ([chi, cells] = [chi + (x - y) ** 2 / (x + y), cells + 1]);
    for (const counts of new Set([...Object.keys(found), ...Object.keys(frequencies)])) {
      const [x, y] = [found[counts] ?? 0, frequencies[counts] ?? 0];
      if (x + y >= 20) add(x, y);
      else rare = [rare[0] + x, rare[1] + y];
    }
    if (rare[0] + rare[1] >= 20) add(...rare);
    const degrees = cells - 1;
    assert.ok(cells > 30 && Math.abs(chi - degrees) < 4 * Math.sqrt(2 * degrees), `chi² ${chi}, ${degrees} degrees`);
  }
});

test("a new start has numbers of the right size and the same for the same seed", () => {
  fc.assert(fc.property(fc.integer({ min: 0, max: 1e9 }), fc.constantFrom("normal", "linear-like"), (seed, kind) => {
    const weights = initialize(like, kind, seed);
    assert.deepEqual(weights, initialize(like, kind, seed));
    assert.deepEqual(weights.PAD, [0, 0]);
    assert.ok(weights.W_Q.flat().every((x) => Math.abs(x) <= 1 / Math.sqrt(2) && Math.fround(x) === x));
    assert.ok(kind === "normal" || VOCABULARY.every((token) => weights[token].every((x) => Math.abs(x) <= 1 / Math.sqrt(2))));
  }));
  const normal = Array.from({ length: 500 }, (_, seed) => initialize(like, "normal", seed).a).flat();
  const variance = normal.reduce((sum, x) => sum + x * x, 0) / normal.length;
  assert.ok(Math.abs(variance - 1) < 4 * Math.sqrt(2 / normal.length), `variance ${variance}`);
});

test("training learns, stops where numbers blow up, and follows the hand", () => {
  const setting = { required: "ab", lengthScaling: 0, attendCls: false };
  const weights = initialize(like, "normal", 1);
  const trainer = new Trainer(weights, setting, OPTIONS);
  const first = trainer.run(() => false, STEPS_AN_EPOCH);
  for (let epoch = 0; epoch < 6; epoch++) trainer.run(() => false, STEPS_AN_EPOCH);
  assert.ok(trainer.run(() => false, STEPS_AN_EPOCH) < first / 5);
  assert.equal(trainer.epoch, 8);
  const moved = { ...trainer.weights, a: [0, 3] };
  trainer.follow(moved, setting, OPTIONS);
  assert.deepEqual(trainer.optimizer.weights.a, [0, 3]);
  trainer.follow(moved, { ...setting, required: "c" }, { ...OPTIONS, learningRate: 10, weightDecay: 1 });
  assert.equal(trainer.strings.setting.required, "c");
  assert.throws(() => trainer.run(() => false, 2000), /blew up/);
});

test("options that cannot be are refused", () => {
  for (const [name, text] of [["learningRate", "-1"], ["learningRate", ""], ["learningRate", "x"], ["batchSize", "3"],
    ["batchSize", "64.5"], ["seed", "-1"], ["weightDecay", "Infinity"]]) {
    assert.throws(() => readOption(name, text, "ab"), /expected|at least/);
  }
  assert.equal(readOption("batchSize", "128", "ab"), 128);
});
