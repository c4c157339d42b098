// All strings at once: a triangle of the proportions of a, b and c, coloured by the logit.
import { html, nothing, svg } from "lit-html";
import { repeat } from "lit-html/directives/repeat.js";
import { ref } from "lit-html/directives/ref.js";
import { placeLabels } from "../geometry.js";
import { LETTERS, isPositive, logitOf } from "../model.js";
import { brief, thousands } from "../notation.js";
import {
  COLUMNS, MAP, ROWS, colorOf, edges, logitsOnGrid, placeOfCorner, placeOfCounts, zeroCurve,
} from "../triangle.js";
import { CROSS, card, drawLabelsAt, linePath, slider, textAt } from "./shared.js";

/** @typedef {import("./shared.js").App} App */
/** @typedef {import("./shared.js").Drawn} Drawn */
/** @typedef {{ string: string, counts: number[], wrong: boolean, place: number[] }} Mark */

/** @type {(app: App) => Drawn} */
export function mapView(app) {
  const { mapLength } = app.state.choices;
  const { lengthScaling } = app.state.kept;
  const lengthMatters = lengthScaling > 0 || app.state.attendCls;
  const length = lengthMatters ? 10 ** mapLength : 1;
  const logitOfShares = (/** @type {number[]} */ shares) =>
    logitOf(app.derived.form, shares.map((share) => share * length), lengthScaling);
  const logits = logitsOnGrid(logitOfShares);
  return card("map", "All strings at once", html`
    <div class="map">
      <canvas aria-hidden="true" width=${COLUMNS + 1} height=${ROWS + 1}
        ${ref((canvas) => canvas && paint(/** @type {HTMLCanvasElement} */ (canvas), app.palette, logits))}></canvas>
      ${drawTriangle(app, logitOfShares, logits)}
    </div>
    <p class="caption">A string lies the nearer to a corner the more of that letter it has; strings of two letters lie
      on the strips. Orange: yes. Purple: no. Black: logit 0.</p>
    ${lengthMatters ? slider({
      label: `colours for strings of ${thousands(Math.round(length))} letters`,
      max: 6,
      step: 0.1,
      value: mapLength,
      input: (value) => app.state.choose({ mapLength: value }),
    }) : nothing}`);
}

/** @type {(app: App, logitOfShares: import("../triangle.js").LogitOf, logits: number[]) => Drawn} */
function drawTriangle(app, logitOfShares, logits) {
  const marks = marksOf(app);
  const words = marks.map(({ string, wrong }) => `${string} ${wrong ? "wrong" : "right"}`).join(", ");
  return html`
    <svg viewBox="0 0 ${MAP.width} ${MAP.height}" role="img"
      aria-label="triangle of all proportions of a, b and c: orange yes, purple no; ${words}">
      ${edges(logitOfShares).map(({ from, to, logit }) =>
        svg`<path d=${linePath(from, to)} class="edge" stroke="rgb(${colorOf(app.palette, logit).join()})"></path>`)}
      <path d=${zeroCurve(logits)} class="zero"></path>
      ${LETTERS.map((letter, i) => {
        const [x, y] = placeOfCorner(i);
        return textAt({ x, y: y + 4, anchor: "middle", kind: `corner label ${letter}`, text: letter });
      })}
      ${repeat(marks, ({ string }) => string, (mark) => drawMark(app, mark))}
      ${drawLabels(marks)}
    </svg>`;
}

/** The strings that are looked at, and the shortest wrong one, where that is shown. @type {(app: App) => Mark[]} */
function marksOf({ state, derived: { counts, traces, search } }) {
  const { strings, required } = state.kept;
  const marks = strings.map((string, i) => (
    { string, counts: counts[i], wrong: traces[i].logit > 0 !== isPositive(counts[i], required) }));
  const { wrong } = search;
  if (state.shows("horizon") && wrong && !strings.includes(wrong.string)) marks.push({ ...wrong, wrong: true });
  return marks.map((mark) => ({ ...mark, place: placeOfCounts(mark.counts) }));
}

/** @type {(app: App, mark: Mark) => Drawn} */
function drawMark({ state }, { string, wrong, place }) {
  const tags = `string:${string}`;
  const cross = `M${place.join()}${CROSS}`;
  return svg`
    <g class="mark ${wrong ? "wrong" : ""} ${state.isLit(tags)}" data-tags=${tags} data-mark=${string}>
      ${wrong
        ? svg`<path d=${cross} class="around"></path><path d=${cross}></path>`
        : svg`<circle cx=${place[0]} cy=${place[1]} r="5"></circle>`}
    </g>`;
}

/** @type {(marks: Mark[]) => Drawn} */
function drawLabels(marks) {
  const labels = marks.map(({ string, wrong, place: [x, y] }) => (
    { x, y, text: brief(string) + (wrong ? " ✗" : ""), kind: "onmap" }));
  /** @type {import("../geometry.js").Rectangle[]} */
  const taken = LETTERS.map((_, i) => placeOfCorner(i)).map(([x, y]) => [x - 8, y - 8, x + 8, y + 8]);
  return drawLabelsAt(labels, placeLabels(labels, MAP, taken));
}

/** @type {(canvas: HTMLCanvasElement, palette: number[][], logits: number[]) => void} */
function paint(canvas, palette, logits) {
  const context = canvas.getContext("2d");
  if (!context) return;
  const image = context.createImageData(COLUMNS + 1, ROWS + 1);
  logits.forEach((logit, i) => {
    if (!Number.isNaN(logit)) image.data.set([...colorOf(palette, logit), 255], 4 * i);
  });
  context.putImageData(image, 0, 0);
}
