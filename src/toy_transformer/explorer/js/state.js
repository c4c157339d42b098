// The state of an explorer, and what changes it: the hand, the film, training, undo, Python. It knows no DOM.
import { decode, encode } from "./code.js";
import { History } from "./history.js";
import { Search } from "./horizon.js";
import { LETTERS, TOKENS, formOf, project, replaceNumbers, trace } from "./model.js";
import { LARGEST, parse, splitStrings } from "./notation.js";
import { initialize, reasonAgainst } from "./strings.js";
import { OPTIONS, Trainer } from "./trainer.js";
import { STEPS_AN_EPOCH } from "./training.js";
import { fits, frameOf, scaleOf } from "./geometry.js";
import { ownerOf, tagsOf, valueOf, vectorsOf } from "./vectors.js";

/** @typedef {import("./model.js").Weights} Weights */
/** @typedef {import("./model.js").Address} Address */
/**
 * What Python, or a page, holds of an explorer: anywidget's model.
 * @typedef {{ get(name: string): any, set(name: string, value: any): void, save_changes(): void,
 *   on(event: string, listener: (content: any) => void): void,
 *   off(event: string, listener: (content: any) => void): void, send?(content: any): void }} WidgetModel
 */
/** What undo brings back. @typedef {import("./code.js").Shared} Kept */
/** A training that was recorded. @typedef {{ epochs: Weights[], best_epoch: number | null }} Recorded */

/** Each part of what is kept, and its trait. @type {Record<keyof Kept, string>} */
export const TRAITS = {
  weights: "weights", strings: "strings", lengthScaling: "length_scaling", required: "required", name: "model_name",
  epoch: "epoch",
};
const KEPT = /** @type {(keyof Kept)[]} */ (Object.keys(TRAITS));
/** Milliseconds of a frame that the search for the horizon may take. */
const SEARCH_TIME = 5;
const FILM_STEP = 400;
/** Milliseconds after which Python is taken not to answer. */
const SILENCE = 1500;

export class State {
  /**
   * @param {WidgetModel} model
   * @param {() => void} changed  is called after each change, which is to be drawn
   * @param {(task: () => void) => void} later  does a task once what was changed has been drawn
   */
  constructor(model, changed, later = (task) => task()) {
    this.model = model;
    this.changed = changed;
    this.later = later;
    this.isTold = true;
    /** @type {Record<string, Recorded>} */
    this.recorded = model.get("models");
    this.attendCls = /** @type {boolean} */ (model.get("attend_cls"));
    this.editable = /** @type {boolean} */ (model.get("editable"));
    this.first = /** @type {Kept} */ (Object.fromEntries(KEPT.map((name) => [name, model.get(TRAITS[name])])));
    this.kept = this.first;
    this.history = new History(this.kept);
    /** What is looked at, which no undo brings back. */
    this.choices = {
      head: 0, projection: /** @type {"W_Q" | "W_K" | "W_V"} */ ("W_K"), arrows: "attention",
      chosen: /** @type {string | null} */ (null), mapLength: 1,
    };
    this.options = OPTIONS;
    /** @type {Record<string, string>} */
    this.problems = {};
    /** The vectors that training leaves alone. @type {Set<string>} */
    this.pinned = new Set();
    /** The vectors that a hand is on. @type {string | null} */
    this.held = null;
    /** @type {string | null} */
    this.lit = null;
    /** @type {Trainer | null} */
    this.trainer = null;
    this.isTraining = false;
    /** @type {ReturnType<typeof setInterval> | null} */
    this.film = null;
    this.saving = false;
    /** The strings as they were before a person began to type. @type {string[] | null} */
    this.beforeTyping = null;
    /** Python does not answer: the page goes on without. */
    this.isAlone = false;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.silence = undefined;
    this.vectors = vectorsOf(this.kept.weights);
    /** @type {Record<string, import("./geometry.js").Frame>} */
    this.frames = {};
    this.search = new Search(this.kept.weights, this.setting);
    this.searched = this.kept;
    this.listen();
  }

  listen() {
    this.listeners = Object.fromEntries(KEPT.map((name) => [`change:${TRAITS[name]}`, () => this.adopt(name)]));
    this.listeners["change:views"] = () => {
      if (!this.shows(this.isTraining ? "training" : "epochs")) this.pause();
      this.changed();
    };
    this.listeners["msg:custom"] = () => this.hear(true);
    for (const [event, listener] of Object.entries(this.listeners)) this.model.on(event, listener);
  }

  close() {
    for (const [event, listener] of Object.entries(this.listeners ?? {})) this.model.off(event, listener);
    this.pause();
    clearTimeout(this.silence);
  }

  // ------------------------------------------------ what follows from the state

  /** @type {(view: string) => boolean} */
  shows = (view) => this.model.get("views").includes(view);

  /** @returns {import("./model.js").Setting} */
  get setting() {
    const { required, lengthScaling } = this.kept;
    return { required, lengthScaling, attendCls: this.attendCls };
  }

  /** The numbers of the model and epoch that the state began with. */
  get reference() {
    const { name, epoch } = this.kept;
    return this.recorded[name].epochs[this.epochOf(name, epoch)];
  }

  get isEdited() {
    const { weights, lengthScaling, required } = this.kept;
    const began = [this.reference, this.first.lengthScaling, this.first.required];
    return JSON.stringify([weights, lengthScaling, required]) !== JSON.stringify(began);
  }

  get canUndo() {
    return this.history.past.length > 0 || this.isTraining || this.film !== null;
  }

  get code() {
    return encode(this.kept);
  }

  /** Whether each frame brings another state. */
  get isMoving() {
    return this.isTraining || this.held !== null;
  }

  /** What the views draw, computed once for each frame. */
  derive() {
    const { weights, strings } = this.kept;
    const projected = project(weights);
    const counts = strings.map(parse);
    return {
      projected,
      counts,
      traces: counts.map((each) => trace(weights, each, this.setting, projected)),
      form: formOf(weights, this.attendCls),
      tokens: this.attendCls ? TOKENS : LETTERS,
      chosen: Math.max(0, strings.indexOf(this.choices.chosen ?? "")),
      search: this.horizon(),
    };
  }

  /** The search for the shortest wrong string, which goes on in each frame until it is done. */
  horizon(until = performance.now() + SEARCH_TIME) {
    const { weights, lengthScaling, required } = this.kept;
    const { searched } = this;
    if (weights !== searched.weights || lengthScaling !== searched.lengthScaling || required !== searched.required) {
      [this.search, this.searched] = [new Search(weights, this.setting), this.kept];
    }
    return this.search.run(until);
  }

  /** A plane's scale stays in a drag, and as long as it has room for the vectors, at all epochs, and the points.
   * @type {(view: string, names: string[], points?: number[][]) => import("./geometry.js").Scale} */
  scale(view, names, points = []) {
    const all = [this.kept.weights, ...this.recorded[this.kept.name].epochs];
    const shown = names.flatMap((name) => all.map((weights) => valueOf(weights, this.vectors[name]))).concat(points);
    const old = this.frames[view];
    if (!old || !(this.held || fits(old, shown))) this.frames[view] = frameOf(shown);
    return scaleOf(this.frames[view]);
  }

  /** Whether something with these tags is lit up. @type {(tags: string) => "lit" | ""} */
  isLit = (tags) => (this.lit !== null && tags.split(" ").includes(this.lit) ? "lit" : "");

  // ------------------------------------------------ changes

  /** A change under way: everything follows, nothing is remembered yet. A hand ends the film, not the training.
   * @type {(part: Partial<Kept>) => void} */
  change(part) {
    if (this.film) this.pause();
    this.show(part);
  }

  /** @type {(part: Partial<Kept>) => void} */
  show(part) {
    this.kept = { ...this.kept, ...part };
    this.problems = {};
    this.changed();
  }

  /** @type {(part: Partial<State["choices"]>) => void} */
  choose(part) {
    Object.assign(this.choices, part);
    this.changed();
  }

  /** The end of a change: it can be undone, and Python is told; what happens while it trains, once it rests.
   * @type {(kind?: string | null) => void} */
  commit(kind = null) {
    if (!this.isTraining && this.history.remember(this.kept, kind)) this.save();
    this.changed();
  }

  /** Tell Python, which takes JupyterLab longer than to draw. */
  save() {
    if (!this.isTold) return;
    this.isTold = false;
    this.later(() => this.tell());
  }

  tell() {
    this.isTold = true;
    this.saving = true; // what is set here is told to all who listen, to this explorer as well
    for (const name of KEPT) this.model.set(TRAITS[name], this.history.saved[name]);
    this.saving = false;
    clearTimeout(this.silence);
    if (this.model.send) this.silence = setTimeout(() => this.hear(false), SILENCE);
    try {
      this.model.save_changes();
      this.model.send?.({ saved: true });
    } catch {
      this.hear(false);
    }
  }

  /** Python has answered, or has not. @type {(hasAnswered: boolean) => void} */
  hear(hasAnswered) {
    clearTimeout(this.silence);
    if (this.isAlone === !hasAnswered) return;
    this.isAlone = !hasAnswered;
    this.changed();
  }

  /** Python, or another view of the same explorer, has set a trait; what a hand is doing goes on.
   * @type {(name: keyof Kept) => void} */
  adopt(name) {
    if (this.saving) return;
    const part = { [name]: this.model.get(TRAITS[name]) };
    const wasMoving = this.isTraining || this.film !== null;
    if (name === "weights" || name === "epoch" || name === "name") this.forgetTraining();
    this.history.remember({ ...this.history.saved, ...part }, "traits");
    this.show(part);
    if (wasMoving && !this.isTraining) this.save();
  }

  undo = () => this.restore(() => this.history.undo());
  redo = () => this.restore(() => this.history.redo());

  /** @type {(find: () => Kept | null) => void} */
  restore(find) {
    if (this.held) return;
    this.pause(); // which may add to the past
    const state = find();
    if (!state) return;
    if (state.weights !== this.kept.weights) this.trainer = null;
    this.show(state);
    this.save();
  }

  reset() {
    this.forgetTraining();
    const { lengthScaling, required } = this.first;
    this.change({ weights: this.reference, lengthScaling, required });
    this.commit();
  }

  /** @type {(places: Address[], numbers: number[]) => void} */
  setNumbers(places, numbers) {
    const within = numbers.map((number) => Math.fround(Math.min(Math.max(number, -LARGEST), LARGEST)));
    this.change({ weights: replaceNumbers(this.kept.weights, places, within) });
  }

  /** Take what was typed, or say what is wrong with it; the last good state stays.
   * @type {(where: string, take: () => Partial<Kept>) => boolean} */
  attempt(where, take) {
    try {
      this.change(take());
      this.commit();
    } catch (error) {
      const { message } = /** @type {Error} */ (error);
      this.problems = { ...this.problems, [where]: `Not taken, and all is as it was: ${message}.` };
      this.changed();
      return false;
    }
    return true;
  }

  /** @type {(text: string) => boolean} */
  setStrings(text) {
    const before = this.beforeTyping ?? this.kept.strings;
    this.beforeTyping = null;
    const isTaken = this.attempt("strings", () => ({ strings: splitStrings(text) }));
    if (!isTaken) this.kept = { ...this.kept, strings: before };
    return isTaken;
  }

  /** Strings that are being typed: those that can be read are shown. @type {(text: string) => void} */
  tryStrings(text) {
    this.beforeTyping ??= this.kept.strings;
    try {
      this.change({ strings: splitStrings(text) });
    } catch {
      return;
    }
  }

  /** What was typed into a field, and refused or not yet taken, is forgotten. @type {(where: string) => void} */
  forget(where) {
    const { [where]: _, ...problems } = this.problems;
    this.problems = problems;
    if (where === "strings" && this.beforeTyping) this.kept = { ...this.kept, strings: this.beforeTyping };
    this.beforeTyping = null;
    this.changed();
  }

  /** A letter that a string must contain, or must not any more; one is left at least.
   * @type {(letter: string, isRequired: boolean) => void} */
  require(letter, isRequired) {
    const required = LETTERS.filter((each) => (each === letter ? isRequired : this.kept.required.includes(each)));
    if (required.length) this.change({ required: required.join("") });
    const reason = reasonAgainst(this.kept.required, this.options.batchSize);
    if (this.isTraining && reason) this.stopTraining(reason);
    this.commit();
  }

  /** The code of a model that is not here gives its numbers to the one that is. @type {(text: string) => boolean} */
  setCode(text) {
    return this.attempt("code", () => {
      const { name, epoch, ...rest } = decode(text, this.kept.weights);
      const recorded = this.recorded[name];
      const isKnown = recorded && (epoch === null) === (recorded.best_epoch === null) && recorded.epochs[epoch ?? 0];
      this.forgetTraining();
      return isKnown ? { name, epoch, ...rest } : rest;
    });
  }

  // ------------------------------------------------ the film of a recorded training

  /** @type {(name: string, epoch: number | null) => Partial<Kept>} */
  stateAt = (name, epoch) => ({ name, epoch, weights: this.recorded[name].epochs[this.epochOf(name, epoch)] });

  /** The place of an epoch among those that were recorded: no epoch is the best one.
   * @type {(name: string, epoch: number | null) => number} */
  epochOf = (name, epoch) => epoch ?? this.recorded[name].best_epoch ?? 0;

  /** @type {(name: string, epoch: number | null) => void} */
  goTo(name, epoch) {
    this.goThrough(epoch, name);
    this.commit();
  }

  /** @type {(epoch: number | null, name?: string) => void} */
  goThrough(epoch, name = this.kept.name) {
    this.forgetTraining();
    this.change(this.stateAt(name, epoch));
  }

  play() {
    const isPlaying = this.film !== null;
    this.forgetTraining();
    if (isPlaying) return;
    const { name } = this.kept;
    const last = this.recorded[name].epochs.length - 1;
    const next = () => {
      const epoch = this.epochOf(name, this.kept.epoch);
      if (epoch >= last) this.pause();
      else this.show(this.stateAt(name, epoch + 1));
    };
    const epoch = this.epochOf(name, this.kept.epoch);
    this.show(this.stateAt(name, epoch >= last ? 0 : epoch));
    this.film = setInterval(next, FILM_STEP);
  }

  /** End the film or the training: what it came to can be undone. */
  pause() {
    if (!this.film && !this.isTraining) return;
    if (this.film) clearInterval(this.film);
    this.film = null;
    this.isTraining = false;
    this.commit();
  }

  /** The numbers are about to be replaced: what the optimizer remembers is of others. */
  forgetTraining() {
    this.pause();
    this.trainer = null;
  }

  // ------------------------------------------------ training

  /** @type {(part: Partial<import("./trainer.js").Options>) => void} */
  setOptions(part) {
    this.options = { ...this.options, ...part };
    this.problems = {};
    this.changed();
  }

  /** Take an option that was typed, or say what is wrong with it.
   * @type {(name: keyof import("./trainer.js").Options, read: () => number) => boolean} */
  attemptOption(name, read) {
    return this.attempt(name, () => {
      this.options = { ...this.options, [name]: read() };
      return {};
    });
  }

  /** Start, or go on: with the optimizer's memory, unless the numbers have been replaced since. */
  train() {
    if (this.isTraining) return this.pause();
    this.pause();
    const reason = reasonAgainst(this.kept.required, this.options.batchSize);
    if (reason) return this.stopTraining(reason);
    this.isTraining = true;
    this.problems = {};
    this.changed();
  }

  newStart() {
    const goesOn = this.isTraining;
    this.forgetTraining();
    this.change({ weights: initialize(this.kept.weights, this.options.initialization, this.options.seed) });
    this.commit();
    if (goesOn) this.train();
  }

  /** Train on by the steps of a frame, or by as many as are asked for. @type {(steps?: number) => void} */
  trainOn(steps) {
    if (!this.isTraining) this.train();
    if (!this.isTraining) return;
    try {
      const trainer = (this.trainer ??= new Trainer(this.kept.weights, this.setting, this.options));
      trainer.follow(this.kept.weights, this.setting, this.options);
      steps ??= trainer.stepsDue();
      if (!steps) return this.changed();
      const loss = trainer.run(this.isFrozen, steps);
      this.kept = { ...this.kept, weights: trainer.weights };
      trainer.note(loss, this.horizon().rightUpTo);
    } catch (error) {
      this.trainer = null;
      this.stopTraining(/** @type {Error} */ (error).message);
    }
    this.changed();
  }

  /** @type {(steps: number) => void} */
  trainSteps(steps) {
    this.pause();
    this.trainOn(steps);
    this.pause();
  }
  step = () => this.trainSteps(1);
  epoch = () => this.trainSteps(STEPS_AN_EPOCH);

  /** @type {(reason: string) => void} */
  stopTraining(reason) {
    this.pause();
    this.problems = { training: `Training stopped: ${reason}.` };
    this.changed();
  }

  /** @type {(address: Address) => boolean} */
  isFrozen = (address) => {
    const owner = ownerOf(address);
    return owner === this.held || this.pinned.has(owner);
  };

  /** @type {(name: string) => void} */
  togglePin(name) {
    if (!this.pinned.delete(name)) this.pinned.add(name);
    this.changed();
  }

  release() {
    this.pinned.clear();
    this.changed();
  }

  /** What lights up with a vector. @type {(name: string) => string} */
  tags = (name) => tagsOf(name, this.vectors[name]);
}
