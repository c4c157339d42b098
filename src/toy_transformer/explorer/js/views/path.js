// The path of CLS through the layer, and the line that decides.
import { html, nothing, svg } from "lit-html";
import { repeat } from "lit-html/directives/repeat.js";
import { halfPlane } from "../geometry.js";
import { brief, show, vector } from "../notation.js";
import { valueOf } from "../vectors.js";
import { drawPlane, labelsOf } from "./plane.js";
import { arrow, card, choice, linePath } from "./shared.js";

const ARROWS = /** @type {const} */ ({ attention: "W_O", "feed-forward in": "W_in", "feed-forward out": "W_out" });
const CHOICES = /** @type {(keyof typeof ARROWS)[]} */ (Object.keys(ARROWS));

/** @typedef {import("./shared.js").Drawn} Drawn */
/** @typedef {import("../geometry.js").Scale} Scale */

/** @type {(app: import("./shared.js").App) => Drawn} */
export function pathView(app) {
  const { state, derived: { traces } } = app;
  const { weights, strings } = state.kept;
  const { arrows } = state.choices;
  const matrix = ARROWS[/** @type {keyof typeof ARROWS} */ (arrows)];
  const added = Object.keys(state.vectors).filter((name) => name.startsWith(`${matrix}.`));
  const names = ["CLS", "classifier.0", ...(state.shows("arrows") ? added : [])];
  const scale = state.scale("path", names, traces.flatMap(({ path }) => path));
  const ends = traces.map(({ path, logit }, i) => {
    const [x, y] = scale.at(path[2]);
    return { x, y, text: `${brief(strings[i])} ${show(logit)}`, kind: "" };
  });
  const steps = traces.flatMap(({ path }) => [path.slice(0, 2), path.slice(1)].map((line) => line.map(scale.at)));
  const handles = names.slice(1).map((name) => [scale.at([0, 0]), scale.at(valueOf(weights, state.vectors[name]))]);
  const words = traces.map(({ path, logit }, i) => `${strings[i]} ends at ${vector(path[2])}, logit ${show(logit)}`);
  return card("path", "The path of CLS, and the line that decides", html`
    ${drawPlane(app, {
      names,
      scale,
      title: `path of CLS; ${words.join("; ")}`,
      content: svg`${drawHalfPlane(scale, weights.classifier[0])}
        <g>${repeat(strings, (string) => string, (string, i) => drawPath(state, scale, string, traces[i]))}</g>`,
      labels: [...labelsOf(app, scale, names), ...ends],
      lines: [...steps, ...handles],
    })}
    ${state.shows("arrows")
      ? choice(app, "arrows of", CHOICES, arrows, "arrows", (option) => state.choose({ arrows: option }))
      : nothing}
    <p class="caption">Solid: + attention. Dashed: + feed-forward. Shaded: the answer is yes. A full point ends there, a
      hollow one does not.</p>`);
}

/** @type {(scale: Scale, classifier: number[]) => Drawn} */
function drawHalfPlane(scale, classifier) {
  const corners = halfPlane(scale, classifier);
  if (!corners) return nothing;
  return svg`<g>
    <polygon points=${corners.join(" ")} class="yes"></polygon>
    <path d=${linePath(corners[0], corners[1])} class="boundary"></path>
  </g>`;
}

/** @type {(state: import("../state.js").State, scale: Scale, string: string, trace: import("../model.js").Trace)
 *   => Drawn} */
function drawPath(state, scale, string, { path, logit }) {
  const points = path.map(scale.at);
  const tags = `string:${string}`;
  return svg`
    <g class="path ${state.isLit(tags)}" data-tags=${tags}
      data-name="path ${string}" data-value=${path.join()} data-logit=${logit}>
      ${arrow(points[0], points[1], "step")}${arrow(points[1], points[2], "step dashed")}
      <circle cx=${points[2][0]} cy=${points[2][1]} r="5" class=${logit > 0 ? "end full" : "end"}></circle>
    </g>`;
}
