// Trains a model for each of many seeds as the page does, with the notebooks' stopping rule; prints what became of them.

import { readFileSync } from "node:fs";
import { Search } from "../../src/toy_transformer/explorer/js/horizon.js";
import { formOf, isPositive, logitOf } from "../../src/toy_transformer/explorer/js/model.js";
import { Strings, initialize } from "../../src/toy_transformer/explorer/js/strings.js";
import { AdamW, STEPS_AN_EPOCH, differentiate, scheduled } from "../../src/toy_transformer/explorer/js/training.js";

const { like, numSeeds, rule, validationBatches, testStrings } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const setting = { required: "ab", lengthScaling: 0, attendCls: false };
const [training, validation] = [{ maxLength: 10, alpha: 1 }, { maxLength: 50, alpha: 0.5 }];
const stringsOf = (kind, seed) => new Strings({ required: "ab", batchSize: 64, ...kind }, seed);
const held = Array.from({ length: validationBatches }, ((strings) => () => strings.batch())(stringsOf(validation, 1e6)));

function train(seed) {
  const optimizer = new AdamW(initialize(like, "normal", seed));
  const strings = stringsOf(training, 2e6);
  const [losses, all] = [[], []];
  while (!hasFinished(losses)) {
    const learningRate = scheduled(rule.learningRate, losses.length);
    for (let step = 0; step < STEPS_AN_EPOCH; step++) {
      const { gradient } = differentiate(optimizer.weights, strings.batch(), setting);
      optimizer.step(gradient, { learningRate, weightDecay: rule.weightDecay });
    }
    losses.push(held.reduce((sum, batch) => sum + 64 * differentiate(optimizer.weights, batch, setting).loss, 0));
    all.push(JSON.stringify(optimizer.weights));
  }
  return JSON.parse(all[losses.indexOf(Math.min(...losses))]);
}

function hasFinished(losses) {
  const since = losses.slice(rule.firstStopEpoch - 1);
  if (losses.length >= rule.maxEpochs) return true;
  if (!since.length) return false;
  return since.at(-1) < rule.targetLoss || since.length - 1 - since.indexOf(Math.min(...since)) >= rule.patience;
}

for (let seed = 0; seed < numSeeds; seed++) {
  const weights = train(seed);
  const form = formOf(weights, false);
  const errors = testStrings.filter((counts) => logitOf(form, counts, 0) > 0 !== isPositive(counts, "ab")).length;
  console.log(JSON.stringify({ errors, horizon: new Search(weights, setting).run().rightUpTo }));
}
