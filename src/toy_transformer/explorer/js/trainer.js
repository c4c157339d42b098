// Training under the hand: some steps a frame, from the numbers as they are, while others are held.
import { addresses, numberAt, replaceNumbers, rowAt } from "./model.js";
import { INITIALIZATIONS, Strings, reasonAgainst } from "./strings.js";
import { AdamW, STEPS_AN_EPOCH, differentiate, scheduled } from "./training.js";

/** Steps in a frame: from one step in ten frames to an epoch in each. */
export const SPEEDS = [0.1, 0.3, 1, 3, 10, 30, STEPS_AN_EPOCH];
const MAX_POINTS = 600;
const [MAX_LENGTH, ALPHA] = [10, 1]; // those of the published training

/**
 * @typedef {{ seed: number, initialization: typeof INITIALIZATIONS[number], learningRate: number, weightDecay: number,
 *   batchSize: number, speed: number }} Options `speed` is a place in `SPEEDS`
 */
/** One frame of the chart. @typedef {{ step: number, loss: number, horizon: number }} Point */
/** @typedef {import("./model.js").Weights} Weights */

/** @type {Options} */
export const OPTIONS = {
  seed: 0, initialization: "normal", learningRate: 0.01, weightDecay: 0.01, batchSize: 64, speed: SPEEDS.length - 2,
};

export class Trainer {
  /**
   * @param {Weights} weights
   * @param {import("./model.js").Setting} setting
   * @param {Options} options
   */
  constructor(weights, setting, options) {
    this.options = options;
    this.setting = setting;
    this.optimizer = new AdamW(weights);
    /** The numbers as they are shown, rounded to float32. */
    this.weights = weights;
    this.strings = this.drawStrings();
    /** @type {import("./strings.js").Batch | null} */
    this.batch = null;
    /** @type {Point[]} */
    this.curve = [];
    this.steps = 0;
    this.due = 0;
  }

  get epoch() {
    return this.steps / STEPS_AN_EPOCH;
  }

  drawStrings() {
    const { batchSize, seed } = this.options;
    return new Strings({ required: this.setting.required, batchSize, maxLength: MAX_LENGTH, alpha: ALPHA }, seed);
  }

  /** Take over what has been changed since the last frame: numbers, the question, options.
   * @type {(weights: Weights, setting: import("./model.js").Setting, options: Options) => void} */
  follow(weights, setting, options) {
    const { required, batchSize, seed } = { ...this.setting, ...this.options };
    Object.assign(this, { setting, options });
    if (required !== setting.required || batchSize !== options.batchSize || seed !== options.seed) {
      this.strings = this.drawStrings();
    }
    for (const address of weights === this.weights ? [] : addresses(weights)) {
      const number = numberAt(weights, address);
      if (number !== numberAt(this.weights, address)) rowAt(this.optimizer.weights, address)[address[2]] = number;
    }
    this.weights = weights;
  }

  /** Take some steps; give their mean loss. What is `frozen` stays.
   * @type {(frozen: (address: import("./model.js").Address) => boolean, steps: number) => number} */
  run(frozen, steps) {
    let sum = 0;
    for (let i = 0; i < steps; i++) sum += this.step(frozen);
    const places = this.optimizer.places;
    const rounded = places.map((at) => Math.fround(numberAt(this.optimizer.weights, at)));
    this.weights = replaceNumbers(this.weights, places, rounded);
    return sum / steps;
  }

  /** How many steps are due in this frame. */
  stepsDue() {
    this.due += SPEEDS[this.options.speed];
    const steps = Math.floor(this.due + 1e-9);
    this.due -= steps;
    return steps;
  }

  /** Take one step; give the loss before it.
   * @type {(frozen: (address: import("./model.js").Address) => boolean) => number} */
  step(frozen) {
    this.batch = this.strings.batch();
    const { loss, gradient } = differentiate(this.optimizer.weights, this.batch, this.setting);
    const { learningRate, weightDecay } = this.options;
    this.optimizer.step(gradient, { learningRate: scheduled(learningRate, this.epoch), weightDecay }, frozen);
    if (this.optimizer.hasBlownUp) throw new RangeError("the numbers blew up: a smaller learning rate may help");
    this.steps++;
    return loss;
  }

  /** Add to the chart; of a long training, it keeps every second point.
   * @type {(loss: number, horizon: number) => void} */
  note(loss, horizon) {
    this.curve.push({ step: this.steps, loss, horizon });
    if (this.curve.length > MAX_POINTS) this.curve = this.curve.filter((_, i) => i % 2 === 1);
  }
}

const RANGES = {
  seed: { least: 0, most: 1e9, whole: true },
  learningRate: { least: 0, most: 10, whole: false },
  weightDecay: { least: 0, most: 10, whole: false },
  batchSize: { least: 1, most: 1024, whole: true },
};
/** Read an option that was typed; throws an error that says what is wrong.
 * @type {(name: keyof typeof RANGES, text: string, required: string) => number} */
export function readOption(name, text, required) {
  const { least, most, whole } = RANGES[name];
  const number = text.trim() === "" ? NaN : Number(text);
  if (!(number >= least && number <= most) || (whole && !Number.isInteger(number))) {
    throw new Error(`“${text.slice(0, 24)}”: expected a ${whole ? "whole " : ""}number from ${least} to ${most}`);
  }
  const reason = name === "batchSize" && reasonAgainst(required, number);
  if (reason) throw new Error(reason);
  return number;
}
