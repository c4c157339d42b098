// One strip for each head: queries and keys on a number line, values and their means on another, attention weights.
import { html, svg } from "lit-html";
import { niceLimit, spread } from "../geometry.js";
import { TOKENS } from "../model.js";
import { brief, show, thousands } from "../notation.js";
import { arrow, card, choice, linePath, marker, textAt } from "./shared.js";

/** @typedef {import("./shared.js").App} App */
/** @typedef {import("./shared.js").Drawn} Drawn */
/** @typedef {{ token: string, number: number, name: string }} Marked */

const [WIDTH, MIDDLE, REACH] = [380, 190, 180];
const COLUMNS = ["letter", "score + ln count", "weight"];

/** @type {(app: App) => Drawn} */
export function headsView(app) {
  const { state, derived: { projected, chosen } } = app;
  const { strings } = state.kept;
  const choose = (/** @type {string} */ option) => state.choose({ chosen: option });
  return card("heads", "Heads: queries, keys and values", html`
    ${choice(app, "attention weights of", strings, strings[chosen], "string", choose)}
    <div class="strips">${projected.map((_, head) => drawStrip(app, head))}</div>
    <p class="caption">score = query × key; count = how often the letter occurs. Weights: the exponentials of
      score + ln count, divided by their sum. A head's result: the values, each times its weight, added up.</p>`);
}

/** @type {(app: App, head: number) => Drawn} */
function drawStrip(app, head) {
  const tag = `head${head}`;
  const kind = `head${head % 2}`;
  return html`
    <div class="strip ${app.state.isLit(tag)}" role="group" data-tags=${tag} aria-label="head ${head}">
      <div class="title ${kind}">head ${head}</div>
      ${drawKeys(app, head, kind)}${drawValues(app, head, kind)}${weightTable(app, head)}
    </div>`;
}

/** A number line with points below it, and what is above it.
 * @type {(app: App, line: { label: string, limit: number, points: Marked[], height: number, name: string },
 *   above: (x: (number: number) => number, y: number) => unknown) => Drawn} */
function drawLine({ state }, { label, limit, points, height, name }, above) {
  const x = (/** @type {number} */ number) => MIDDLE + (number / limit) * REACH;
  const y = height - 46;
  const places = spread(points.map((point) => x(point.number) - 24), 50, 2, 332).map((place) => place + 24);
  return html`
    <svg viewBox="0 0 ${WIDTH} ${height}" class="line" role="img" aria-label=${label} data-limit=${limit}>
      <path d="M5,${y}H375M${MIDDLE},${y - 6}V${y + 6}" class="axis strong"></path>
      ${textAt({ x: 5, y: y - 5, kind: "tick", text: name })}
      ${above(x, y)}
      ${points.map(({ token, number, name }, i) => svg`
        <g class="${token} ${state.isLit(token)}" data-tags=${token}
          data-name=${name} data-value=${number} data-x=${x(number)}>
          <path d=${linePath([x(number), y + 8], [places[i], y + 20])} class="leader"></path>
          ${marker(token, x(number), y)}
          ${textAt({ x: places[i], y: y + 31, anchor: "middle", kind: `label ${token}`, text: token })}
          ${textAt({ x: places[i], y: y + 44, anchor: "middle", kind: `label ${token}`, text: show(number) })}
        </g>`)}
    </svg>`;
}

/** @type {(app: App, head: number, kind: string) => Drawn} */
function drawKeys(app, head, kind) {
  const { projected, tokens } = app.derived;
  const { query, keys } = projected[head];
  const points = tokens.map((token) => ({ token, number: keys[TOKENS.indexOf(token)], name: `key ${head} ${token}` }));
  const limit = niceLimit([query, ...points.map((point) => point.number)]);
  const label = `head ${head}: query of CLS ${show(query)}, keys ${inWords(points)}`;
  return drawLine(app, { label, limit, points, height: 98, name: "keys" }, (x, y) => svg`
    <g class=${kind} data-name="query ${head}" data-value=${query} data-x=${x(query)}>
      ${arrow([MIDDLE, y - 20], [x(query), y - 20], "arrow")}
    </g>
    ${textAt({
      x: Math.min(Math.max(x(query / 2), 62), 318),
      y: y - 28,
      anchor: "middle",
      kind: `label ${kind}`,
      text: `query of CLS ${show(query)}`,
    })}`);
}

/** @type {(app: App, head: number, kind: string) => Drawn} */
function drawValues(app, head, kind) {
  const { projected, tokens, traces } = app.derived;
  const { values } = projected[head];
  const points = tokens.map((token) => (
    { token, number: values[TOKENS.indexOf(token)], name: `value ${head} ${token}` }));
  const { strings } = app.state.kept;
  const results = traces.map((trace) => trace.heads[head].result);
  const words = strings.map((string, i) => `${string} ${show(results[i])}`).join(", ");
  const label = `head ${head}: values ${inWords(points)}; results ${words}`;
  const limit = niceLimit(points.map((point) => point.number));
  return drawLine(app, { label, limit, points, height: 62 + 14 * strings.length, name: "values" }, (x, y) =>
    strings.map((string, i) => {
      const [at, height] = [x(results[i]), y - 12 - 14 * i];
      const isRight = at > 230;
      const tags = `string:${string}`;
      return svg`
        <g class="result ${kind} ${app.state.isLit(tags)}" data-tags=${tags}
          data-name="result ${head} ${string}" data-value=${results[i]} data-x=${at}>
          <path d="M${at},${y}V${height}" class="stem"></path>
          <circle cx=${at} cy=${height} r="3" class="dot"></circle>
          ${textAt({
            x: at + (isRight ? -6 : 6),
            y: height + 4,
            anchor: isRight ? "end" : "start",
            kind: `label ${kind}`,
            text: `${brief(string)} ${show(results[i])}`,
          })}
        </g>`;
    }));
}

/** @type {(points: Marked[]) => string} */
const inWords = (points) => points.map(({ token, number }) => `${token} ${show(number)}`).join(", ");

/** @type {(app: App, index: number) => Drawn} */
function weightTable(app, index) {
  const { tokens, counts, chosen, traces } = app.derived;
  const head = traces[chosen].heads[index];
  const countOf = (/** @type {string} */ token) => (token === "CLS" ? 1 : counts[chosen]["abc".indexOf(token)]);
  return html`
    <table class="weights">
      <caption>head ${index} reads ${brief(app.state.kept.strings[chosen])}</caption>
      <thead><tr>${COLUMNS.map((title) => html`<th scope="col">${title}</th>`)}</tr></thead>
      <tbody>${tokens.filter(countOf).map((token) => {
        const i = TOKENS.indexOf(token);
        const weight = head.attentionWeights[i];
        return html`
          <tr data-tags=${token} class=${app.state.isLit(token)}>
            <th scope="row" class=${token}>${token}${countOf(token) > 1 ? ` ×${thousands(countOf(token))}` : ""}</th>
            <td data-name="score ${index} ${token}" data-value=${head.scores[i]}>${show(head.scores[i])}</td>
            <td class="bar" data-name="weight ${index} ${token}" data-value=${weight}>
              <span class="fill ${token}" style="width: ${(60 * weight).toFixed(2)}px"></span>
              <span class="number">${weightText(weight, countOf(token))}</span>
            </td>
          </tr>`;
      })}</tbody>
    </table>`;
}

/** What each of some equal letters weighs. @type {(weight: number, count: number) => string} */
function weightText(weight, count) {
  const one = weight / count;
  const text = one > 0 && one < 0.001 ? one.toExponential(1).replace("-", "−") : show(one, count > 1 ? 4 : 3);
  return count > 1 ? `${thousands(count)} × ${text}` : text;
}
