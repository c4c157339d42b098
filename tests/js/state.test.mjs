// The state of an explorer: whatever a hand does can be undone, and what is refused changes nothing.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { addresses, replaceNumbers } from "../../src/toy_transformer/explorer/js/model.js";
import { State, TRAITS } from "../../src/toy_transformer/explorer/js/state.js";
import { initialize } from "../../src/toy_transformer/explorer/js/strings.js";
import { given } from "./given.mjs";

const epochs = [0, 1, 2].map((seed) => initialize(given.like, "normal", seed));
const VIEWS = ["verdict", "horizon", "training"];

/** A stand-in for anywidget's model: Python's side. */
function python() {
  const traits = {
    models: { seed: { epochs, best_epoch: 2 } }, attend_cls: false, editable: true, views: VIEWS, weights: epochs[2],
    strings: ["ab"], length_scaling: 0, required: "ab", model_name: "seed", epoch: 2,
  };
  const listeners = {};
  return {
    get: (name) => traits[name],
    set(name, value) {
      if (JSON.stringify(traits[name]) === JSON.stringify(value)) return;
      traits[name] = value;
      listeners[`change:${name}`]?.forEach((listener) => listener());
    },
    on: (event, listener) => (listeners[event] ??= []).push(listener),
    off: (event, listener) => (listeners[event] = listeners[event].filter((each) => each !== listener)),
    save_changes: () => {},
    listeners,
  };
}

const newState = () => {
  const model = python();
  return { model, state: new State(model, () => {}) };
};
const assertTold = (model, state) => {
  const json = (told) => JSON.parse(JSON.stringify(told)); // as it reaches Python, without a -0
  for (const [name, trait] of Object.entries(TRAITS)) assert.deepEqual(json(model.get(trait)), json(state.kept[name]), name);
};

const number = fc.float({ min: -2000, max: 2000, noNaN: true });
const place = fc.nat({ max: 35 });
const ACTIONS = fc.array(fc.oneof(
  fc.record({ act: fc.constant("number"), place, number }),
  fc.record({ act: fc.constant("κ"), number: fc.float({ min: 0, max: 3, noNaN: true }) }),
  fc.record({ act: fc.constant("strings"), text: fc.constantFrom("ab, c", "a{30}b", "", "xyz", "a,,b") }),
  fc.record({ act: fc.constant("require"), letter: fc.constantFrom("a", "b", "c"), on: fc.boolean() }),
  fc.record({ act: fc.constant("epoch"), epoch: fc.nat({ max: 2 }) }),
  fc.record({ act: fc.constant("steps"), steps: fc.integer({ min: 1, max: 3 }) }),
  fc.record({ act: fc.constantFrom("undo", "redo", "reset", "new start", "train", "trainOn", "pause") }),
  fc.record({ act: fc.constant("code"), text: fc.constantFrom("", "TT2.x", "TT1.a.b.c.d.e") }),
  fc.record({ act: fc.constant("python"), place, number }),
  fc.record({ act: fc.constant("pin"), name: fc.constantFrom("a", "W_Q.0", "classifier.0") }),
), { maxLength: 12 });

function perform({ model, state }, action) {
  const { weights } = state.kept;
  const address = addresses(weights)[action.place ?? 0];
  ({
    number: () => {
      state.setNumbers([address], [action.number]);
      state.commit();
    },
    κ: () => {
      state.change({ lengthScaling: action.number });
      state.commit();
    },
    strings: () => state.setStrings(action.text),
    require: () => state.require(action.letter, action.on),
    epoch: () => state.goTo("seed", action.epoch),
    steps: () => state.trainSteps(action.steps),
    undo: () => state.undo(),
    redo: () => state.redo(),
    reset: () => state.reset(),
    "new start": () => state.newStart(),
    train: () => state.train(),
    trainOn: () => state.trainOn(),
    pause: () => state.pause(),
    code: () => state.setCode(action.text),
    python: () => model.set("weights", replaceNumbers(weights, [address], [Math.fround(action.number / 2)])),
    pin: () => state.togglePin(action.name),
  })[action.act]();
}

test("whatever is done, all of it can be undone and done again, and Python has the same", () => {
  fc.assert(fc.property(ACTIONS, (actions) => {
    const both = newState();
    const { model, state } = both;
    const first = JSON.stringify(state.kept);
    for (const action of actions) perform(both, action);
    state.pause();
    assertTold(model, state);
    const [last, undone] = [JSON.stringify(state.kept), state.history.future.length];
    while (state.history.past.length) state.undo();
    assert.equal(JSON.stringify(state.kept), first);
    assertTold(model, state);
    while (state.history.future.length > undone) state.redo();
    assert.equal(JSON.stringify(state.kept), last);
    assert.ok(Object.values(state.kept.weights).flat(2).every((x) => Math.abs(x) <= 1000 && Math.fround(x) === x));
    state.close();
  }), { numRuns: 200, examples: [[[{ act: "number", place: 2, number: -0 }]]] });
});

test("what is refused changes nothing but the reason", () => {
  const { model, state } = newState();
  const before = JSON.stringify(state.kept);
  assert.equal(state.setStrings("xyz"), false);
  assert.match(state.problems.strings, /expected a, b, c/);
  assert.equal(state.setCode("nonsense"), false);
  assert.match(state.problems.code, /begins with TT2/);
  state.require("a", false);
  state.require("b", false);
  assert.equal(state.kept.required, "b");
  state.undo();
  assert.equal(JSON.stringify(state.kept), before);
  assertTold(model, state);
});

test("training goes on from where the hand has put a number, and leaves alone what is held or pinned", () => {
  const { state } = newState();
  state.train();
  state.trainOn(5);
  state.held = "a";
  state.setNumbers(state.vectors.a.at, [0.25, -0.5]);
  state.togglePin("W_Q.1");
  const { W_Q, b } = state.kept.weights;
  state.trainOn(5);
  assert.deepEqual(state.kept.weights.a, [0.25, -0.5]);
  assert.deepEqual(state.kept.weights.W_Q[1], W_Q[1]);
  assert.notDeepEqual(state.kept.weights.b, b);
  state.held = null;
  state.trainOn(5);
  assert.notDeepEqual(state.kept.weights.a, [0.25, -0.5]);
  state.pause();
  state.undo();
  assert.deepEqual(state.kept.weights, epochs[2]);
  assert.equal(state.trainer, null);
});

test("numbers that blow up stop the training with a sentence and the last good state", () => {
  const { state } = newState();
  state.setOptions({ learningRate: 10, weightDecay: 1 });
  state.train();
  for (let i = 0; i < 2000 && state.isTraining; i++) state.trainOn(1);
  assert.equal(state.isTraining, false);
  assert.match(state.problems.training, /blew up/);
  assert.ok(Object.values(state.kept.weights).flat(2).every((x) => Math.abs(x) <= 1000));
});

test("a question that cannot be trained stops the training with a sentence", () => {
  const { state } = newState();
  state.train();
  state.require("c", true);
  assert.equal(state.isTraining, false);
  assert.match(state.problems.training, /not asked for/);
  state.train();
  assert.equal(state.isTraining, false);
});

test("two views of one explorer show the same, and each can undo what the other did", () => {
  const { model, state } = newState();
  const other = new State(model, () => {});
  state.setNumbers([["a", null, 0]], [1.5]);
  state.commit();
  assert.deepEqual(other.kept, state.kept);
  other.setStrings("c, b");
  assert.deepEqual(other.kept, state.kept);
  state.undo();
  state.undo();
  assert.deepEqual(other.kept, state.kept);
  assert.deepEqual([state.kept.weights, state.kept.strings], [epochs[2], ["ab"]]);
});

test("reset brings back the numbers, κ and the question", () => {
  const { state } = newState();
  const before = JSON.stringify(state.kept);
  state.setNumbers([["a", null, 0]], [1.5]);
  state.change({ lengthScaling: 2.5 });
  state.require("c", true);
  assert.ok(state.isEdited);
  state.reset();
  assert.equal(JSON.stringify(state.kept), before);
  assert.ok(!state.isEdited);
});

test("what is typed shows at once; what is refused brings back the strings from before", () => {
  const { model, state } = newState();
  for (const text of ["a", "ab", "abc", "abd"]) state.tryStrings(text);
  assert.deepEqual(state.kept.strings, ["abc"]);
  assert.equal(state.setStrings("abd"), false);
  assert.deepEqual(state.kept.strings, ["ab"]);
  assertTold(model, state);
  state.tryStrings("b");
  assert.equal(state.setStrings("b, c"), true);
  assertTold(model, state);
  state.undo();
  assert.deepEqual(state.kept.strings, ["ab"]);
});

test("a code that is pasted while it trains ends the training", () => {
  const { state } = newState();
  const { code } = state;
  state.train();
  state.trainOn(2);
  assert.equal(state.setCode(code), true);
  assert.ok(!state.isTraining && state.trainer === null);
  assert.deepEqual(state.kept.weights, epochs[2]);
});

test("Python that sets numbers or an impossible question while it trains ends the training", () => {
  const { model, state } = newState();
  state.train();
  state.trainOn(2);
  const { weights } = state.kept;
  model.set("weights", epochs[1]);
  assert.ok(!state.isTraining);
  assert.deepEqual(state.kept.weights, epochs[1]);
  assertTold(model, state);
  state.undo();
  assert.deepEqual(state.kept.weights, weights);
  state.train();
  model.set("required", "abc");
  state.trainOn();
  assert.ok(!state.isTraining);
  assert.match(state.problems.training, /not asked for/);
});

test("another epoch is another beginning; no epoch is the best one", () => {
  const { model, state } = newState();
  state.train();
  state.trainOn(2);
  state.goThrough(1);
  assert.ok(!state.isTraining && state.trainer === null);
  model.set("weights", epochs[2]);
  model.set("epoch", null);
  assert.equal(state.reference, epochs[2]);
  assert.ok(!state.isEdited);
});

test("Python that does not answer is missed, and comes back", () => {
  const { model, state } = newState();
  model.send = () => {
    throw new Error("no kernel");
  };
  state.setNumbers([["a", null, 0]], [1.5]);
  state.commit();
  assert.ok(state.isAlone);
  model.listeners["msg:custom"].forEach((listener) => listener({ saved: true }));
  assert.ok(!state.isAlone);
  state.close();
});

test("closed, it listens to nothing any more", () => {
  const { model, state } = newState();
  state.train();
  state.play();
  state.close();
  assert.ok(Object.values(model.listeners).every((listeners) => listeners.length === 0));
  assert.ok(!state.isTraining && state.film === null);
});
