// The plane of the embeddings, and what a head makes of them: projections onto its three arrows.
import { html, nothing, svg } from "lit-html";
import { axisAlong } from "../geometry.js";
import { VOCABULARY, dot } from "../model.js";
import { show } from "../notation.js";
import { valueOf } from "../vectors.js";
import { drawPlane, labelsOf } from "./plane.js";
import { card, choice, linePath } from "./shared.js";

const MAPS = /** @type {const} */ (["W_Q", "W_K", "W_V"]);
const CALLED = { W_Q: "query", W_K: "keys", W_V: "values" };

/** @typedef {import("./shared.js").App} App */
/** @typedef {import("./shared.js").Drawn} Drawn */

/** @type {(app: App) => Drawn} */
export const embeddingsView = (app) => (app.state.shows("arrows") ? withProjections(app) : tokensAlone(app));

/** @type {(app: App) => Drawn} */
function tokensAlone(app) {
  const scale = app.state.scale("embeddings", [...VOCABULARY]);
  return card("embeddings", "Embeddings: each token is a point", drawPlane(app, {
    names: [...VOCABULARY],
    scale,
    title: "plane of the embeddings",
    content: nothing,
    labels: labelsOf(app, scale, [...VOCABULARY]),
    lines: [],
  }));
}

/** @type {(app: App) => Drawn} */
function withProjections(app) {
  const { state } = app;
  const { weights } = state.kept;
  const { head, projection } = state.choices;
  const arrows = MAPS.map((matrix) => `${matrix}.${head}`);
  const names = [...arrows, ...VOCABULARY];
  const scale = state.scale("embeddings", names);
  const row = weights[projection][head];
  const axis = axisAlong(scale, row);
  const lines = arrows.map((name) => [scale.at([0, 0]), scale.at(valueOf(weights, state.vectors[name]))]);
  const tokens = projection === "W_Q" ? /** @type {const} */ (["CLS"]) : app.derived.tokens;
  const products = tokens.map((token) => `${token} ${show(dot(row, weights[token]))}`).join(", ");
  const heads = weights.W_Q.map((_, i) => String(i));
  return card("embeddings", "Embeddings, and what a head makes of them", html`
    ${drawPlane(app, {
      names,
      scale,
      title: `plane of the embeddings, with the arrows of head ${head}`,
      content: drawProjection(scale, row, axis, tokens.map((token) => weights[token]), `head${head % 2}`),
      labels: labelsOf(app, scale, names),
      lines: axis ? [...lines, axis] : lines,
    })}
    ${choice(app, "head", heads, String(head), "head", (option) => state.choose({ head: Number(option) }))}
    ${choice(app, "projection onto", MAPS, projection, "projection", (option) => state.choose({ projection: option }))}
    <p class="caption">Projected onto ${projection} of head ${head}, that is, multiplied by it:
      ${CALLED[projection]} ${products}.</p>`);
}

/** The axis along a row of a map, and each point's foot on it.
 * @type {(scale: import("../geometry.js").Scale, row: number[], axis: number[][] | null, points: number[][],
 *   kind: string) => Drawn} */
function drawProjection(scale, row, axis, points, kind) {
  if (!axis) return nothing;
  const along = row.map((x) => x / Math.hypot(...row));
  const feet = points.map((point) => scale.at(along.map((x) => x * dot(along, point))));
  return svg`<g>
    <path d=${linePath(axis[0], axis[1])} class="projection ${kind}"></path>
    <path d=${points.map((point, i) => linePath(scale.at(point), feet[i])).join("")} class="foot"></path>
    ${feet.map(([x, y]) => svg`<circle cx=${x} cy=${y} r="3" class="footpoint ${kind}"></circle>`)}
  </g>`;
}
