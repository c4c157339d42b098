// A plane with vectors that can be moved: its frame, ticks, handles and labels.
import { html, svg } from "lit-html";
import { repeat } from "lit-html/directives/repeat.js";
import { SIZE, boxOfTick, placeLabels, ticksOf } from "../geometry.js";
import { vector } from "../notation.js";
import { isToken, valueOf } from "../vectors.js";
import { arrow, drawLabelsAt, marker, textAt } from "./shared.js";

/** @typedef {import("./shared.js").App} App */
/** @typedef {import("./shared.js").Drawn} Drawn */
/** @typedef {import("../geometry.js").Scale} Scale */
/** @typedef {import("../geometry.js").Label} Label */

/**
 * What is drawn in a plane, below its handles; labels keep clear of its lines.
 * @typedef {{ names: string[], scale: Scale, title: string, content: unknown, labels: Label[],
 *   lines: import("../geometry.js").Point[][] }} Plane
 */

/** @type {(app: App, plane: Plane) => Drawn} */
export function drawPlane(app, { names, scale, title, content, labels, lines }) {
  const [x0, y0] = scale.at([0, 0]);
  const ticks = ticksOf(scale);
  const places = placeLabels(labels, { width: SIZE, height: SIZE }, ticks.map(boxOfTick), lines);
  const handleEvent = (/** @type {TouchEvent} */ event) => app.hand.touch(event, names, scale);
  return html`
    <svg viewBox="0 0 ${SIZE} ${SIZE}" class="plane" role="group" aria-label=${title}
      data-frame=${[...scale.corner, scale.side].join()}
      @pointerdown=${(/** @type {PointerEvent} */ event) => app.hand.grab(event, names, scale)}
      @pointermove=${(/** @type {PointerEvent} */ event) => app.hand.hover(event, names, scale)}
      @dblclick=${(/** @type {MouseEvent} */ event) => app.hand.pin(event, names, scale)}
      @touchstart=${{ handleEvent, passive: false }}>
      <path d="M0,${y0}H${SIZE}M${x0},0V${SIZE}" class="axis"></path>
      <g>${ticks.map((tick) => textAt({ ...tick, kind: "tick" }))}</g>
      ${content}
      ${repeat(names, (name) => name, (name) => drawHandle(app, scale, name))}
      ${drawLabelsAt(labels, places)}
    </svg>`;
}

/** A vector as a handle: a point for a token, else an arrow from the origin; a ring about it where it is pinned.
 * @type {(app: App, scale: Scale, name: string) => Drawn} */
function drawHandle({ state, hand }, scale, name) {
  const { kind, title } = state.vectors[name];
  const value = valueOf(state.kept.weights, state.vectors[name]);
  const [x, y] = scale.at(value);
  const tags = state.tags(name);
  const isPinned = state.pinned.has(name) || (state.isTraining && state.held === name);
  const drawn = svg`<circle cx=${x} cy=${y} r="13" class=${isPinned ? "halo pinned" : "halo"}></circle>
    ${isToken(name)
      ? marker(name, x, y)
      : arrow(scale.at([0, 0]), [x, y], "arrow")}`;
  if (!state.editable) {
    return svg`
      <g class="${kind} ${state.isLit(tags)}" data-tags=${tags} data-vector=${name} data-value=${value.join()}>
        ${drawn}
      </g>`;
  }
  const how = `arrow keys move it, Home resets it, P ${isPinned ? "releases" : "pins"} it`;
  return svg`
    <g class="handle ${kind} ${state.isLit(tags)}" tabindex="0" role="slider" aria-label="${title}: ${how}"
      aria-valuenow=${value[0].toFixed(2)} aria-valuetext="${vector(value)}${isPinned ? ", pinned" : ""}"
      data-tags=${tags} data-vector=${name} data-value=${value.join()}
      @keydown=${(/** @type {KeyboardEvent} */ event) => hand.nudge(event, name)}>${drawn}</g>`;
}

/** @type {(app: App, scale: Scale, names: string[]) => Label[]} */
export const labelsOf = ({ state }, scale, names) => names.map((name) => {
  const { label, kind } = state.vectors[name];
  const [x, y] = scale.at(valueOf(state.kept.weights, state.vectors[name]));
  return { x, y, text: label, kind };
});
