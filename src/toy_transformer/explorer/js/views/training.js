// Training: its controls, a chart of loss and horizon, and the strings of the last batch.
import { scaleLinear, scaleLog } from "d3-scale";
import { html, nothing, svg } from "lit-html";
import { shortForm, show, thousands } from "../notation.js";
import { INITIALIZATIONS } from "../strings.js";
import { SPEEDS, readOption } from "../trainer.js";
import { STEPS_AN_EPOCH, scheduled } from "../training.js";
import { button, card, choice, problem, slider, textAt, textField } from "./shared.js";

/** @typedef {import("./shared.js").App} App */
/** @typedef {import("./shared.js").Drawn} Drawn */
/** @typedef {import("../trainer.js").Point} Point */
/** @typedef {import("d3-scale").ScaleLogarithmic<number, number>} LogScale */

const LABELS = /** @type {const} */ ({
  learningRate: "learning rate ", weightDecay: "weight decay ", batchSize: "strings in a batch ", seed: "seed ",
});
const FIELDS = /** @type {(keyof typeof LABELS)[]} */ (Object.keys(LABELS));

/** @type {(app: App) => Drawn} */
export function trainingView(app) {
  const { state } = app;
  const { options, trainer } = state;
  return card("training", "Train it from where it stands", html`
    <div class="controls">
      <span class="control">
        ${button("one step", "train one step", state.step)}${button("one epoch", "train one epoch", state.epoch)}
        ${button("new start", "new start: other numbers, drawn anew", () => state.newStart())}
      </span>
      ${slider({
        label: speedText(SPEEDS[options.speed]),
        max: SPEEDS.length - 1,
        step: 1,
        value: options.speed,
        input: (speed) => state.setOptions({ speed }),
      })}
      ${drawPinned(app)}
    </div>
    ${problem(app, "training")}
    ${drawChart(trainer?.curve ?? [], state.shows("horizon"))}
    <p class="caption">${whereItIs(app)} Drag while it learns: a vector stays where it is held; P, a double click or
      its pin keeps it there. The seeds are this page's own: they give other numbers than in Python.</p>
    <details><summary>settings, and the last batch</summary>${drawSettings(app)}${drawBatch(app)}</details>`);
}

/** @type {(steps: number) => string} */
function speedText(steps) {
  if (steps === STEPS_AN_EPOCH) return "an epoch a frame";
  return steps < 1 ? `a step in ${Math.round(1 / steps)} frames` : `${steps} ${steps === 1 ? "step" : "steps"} a frame`;
}

/** @type {(app: App) => string} */
function whereItIs({ state: { trainer, options } }) {
  if (!trainer) return "▶ train, at the top, begins with the numbers as they are.";
  const rate = show(scheduled(options.learningRate, trainer.epoch), 4);
  return `Epoch ${Math.floor(trainer.epoch)}, step ${thousands(trainer.steps)}; learning rate ${rate}.`;
}

/** @type {(app: App) => Drawn} */
function drawPinned({ state }) {
  if (!state.pinned.size) return nothing;
  const names = [...state.pinned].map((name) => state.vectors[name].label).join(", ");
  return html`<span class="control">pinned: ${names}
    ${button("release", "release all pins", () => state.release())}</span>`;
}

/** @type {(app: App) => Drawn} */
function drawSettings(app) {
  const { state } = app;
  const field = (/** @type {typeof FIELDS[number]} */ name) =>
    textField(app, name, LABELS[name], String(state.options[name]), (text) =>
      state.attemptOption(name, () => readOption(name, text, state.kept.required)));
  return html`
    <div class="controls">
      ${choice(app, "new numbers", INITIALIZATIONS, state.options.initialization, "initialization", (initialization) =>
        state.setOptions({ initialization }))}
      ${FIELDS.map(field)}${FIELDS.map((name) => problem(app, name))}
    </div>
    <p class="caption">AdamW, as in the notebooks. An epoch has ${STEPS_AN_EPOCH} batches; the learning rate falls to
      its half over 30 epochs. “linear-like” embeddings are smaller ones, drawn as the rows of a linear map.</p>`;
}

/** @type {(app: App) => Drawn} */
function drawBatch({ state: { trainer } }) {
  if (!trainer?.batch) return nothing;
  const { counts, labels } = trainer.batch;
  const string = (/** @type {number[]} */ each, /** @type {number} */ i) => {
    const answer = labels[i] ? "yes" : "no";
    return html`<span class=${answer}>${shortForm(each)} ${answer}</span> `;
  };
  return html`<p class="batch">The last batch: ${counts.map(string)}</p>`;
}

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [420, 150, 40, 374, 18, 128];
const GREATEST_HORIZON = 1e6;

/** Loss on the left axis, horizon on the right one, both logarithmic.
 * @type {(curve: Point[], showsHorizon: boolean) => Drawn} */
function drawChart(curve, showsHorizon) {
  const [first, last] = [curve[0]?.step ?? 0, curve.at(-1)?.step ?? 0];
  const x = scaleLinear([first, Math.max(last, first + 10)], [LEFT, RIGHT]);
  const losses = curve.map(({ loss }) => Math.max(loss, 1e-12));
  const loss = scaleLog([Math.min(1e-3, ...losses), Math.max(1, ...losses)], [BOTTOM, TOP]).nice();
  const horizon = scaleLog([1, GREATEST_HORIZON], [BOTTOM, TOP]);
  const horizons = curve.map((point) => [x(point.step), horizon(Math.max(1, point.horizon))]);
  return html`
    <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" class="chart" role="img" aria-label=${inWords(curve, showsHorizon)}>
      <path d="M${LEFT},${TOP}V${BOTTOM}H${RIGHT}V${TOP}" class="axis frame"></path>
      ${textAt({ x: 2, y: 9, kind: "tick", text: "loss —" })}${drawTicks(loss, LEFT - 4, "end")}
      ${x.ticks(4).map((step) =>
        textAt({ x: x(step), y: BOTTOM + 14, anchor: "middle", kind: "tick", text: thousands(step) }))}
      <path d=${linesThrough(curve.map(({ step }, i) => [x(step), loss(losses[i])]))} class="loss"></path>
      ${showsHorizon ? svg`${drawTicks(horizon, RIGHT + 4, "start")}
        ${textAt({ x: WIDTH - 2, y: 9, anchor: "end", kind: "tick horizon-name", text: "horizon ┄" })}
        <path d=${linesThrough(horizons)} class="horizon-line"></path>` : nothing}
    </svg>`;
}

/** @type {(curve: Point[], showsHorizon: boolean) => string} */
function inWords(curve, showsHorizon) {
  const last = curve.at(-1);
  if (!last) return "chart of the loss: empty before the first step";
  const range = showsHorizon ? `, right up to ${thousands(last.horizon)} letters` : "";
  return `loss ${show(last.loss, 4)}${range}, after ${thousands(last.step)} steps`;
}

/** Some powers of ten along an axis. @type {(scale: LogScale, x: number, anchor: string) => Drawn} */
function drawTicks(scale, x, anchor) {
  const [low, high] = scale.domain().map((end) => Math.round(Math.log10(end)));
  const powers = Array.from({ length: high - low + 1 }, (_, i) => low + i);
  const every = Math.ceil(powers.length / 4);
  return svg`${powers.filter((_, i) => i % every === 0).map((power) =>
      textAt({ x, y: scale(10 ** power) + 4, anchor, kind: "tick", text: powerOfTen(power) }))}`;
}

/** @type {(power: number) => string} */
function powerOfTen(power) {
  if (power >= 6) return `${10 ** (power - 6)} M`;
  return power >= -3 ? thousands(10 ** power) : `1e−${-power}`;
}

/** @type {(points: number[][]) => string} */
const linesThrough = (points) =>
  points.length ? `M${points.map((point) => point.map((place) => place.toFixed(1)).join()).join("L")}` : "";
