// All 36 numbers as fields, by matrix; each vector, a row or a column, has a pin.
import { html, nothing } from "lit-html";
import { VOCABULARY, numberAt, replaceNumbers } from "../model.js";
import { readNumber, show } from "../notation.js";
import { ownerOf } from "../vectors.js";
import { card, fieldOf, fieldText, giveUp, isInvalid, leave, problem, takeTyped } from "./shared.js";

/** @typedef {import("./shared.js").App} App */
/** @typedef {import("./shared.js").Drawn} Drawn */
/** @typedef {[keyof import("../model.js").Weights, number | null]} Row */
/** @typedef {{ title: string, rows: Row[], heading: (row: Row) => string, columns: string[] }} Table */

const DIMS = ["dim 0", "dim 1"];

/** @type {Table[]} */
const TABLES = [
  { title: "embeddings", rows: VOCABULARY.map((token) => [token, null]), heading: (row) => row[0], columns: DIMS },
  ...(/** @type {const} */ (["W_Q", "W_K", "W_V"])).map((name) => tableOf(name, "head", DIMS)),
  tableOf("W_O", "dim", ["head 0", "head 1"]),
  tableOf("W_in", "unit", DIMS),
  tableOf("W_out", "dim", ["unit 0", "unit 1"]),
  { title: "classifier", rows: [["classifier", 0]], heading: () => "logit", columns: DIMS },
];

/** @type {(name: "W_Q" | "W_K" | "W_V" | "W_O" | "W_in" | "W_out", rows: string, columns: string[]) => Table} */
function tableOf(name, rows, columns) {
  return { title: name, rows: [[name, 0], [name, 1]], heading: (row) => `${rows} ${row[1]}`, columns };
}

/** @type {(app: App) => Drawn} */
export const numbersView = (app) => card("numbers", "All 36 numbers", html`
  <div class="tables">${TABLES.map((table) => drawTable(app, table))}</div>
  <p class="caption">Type a number, drag it sideways, or press ↑ and ↓. dim: dimension; unit: one of the two of the
    feed-forward.</p>
  ${problem(app, "number")}`);

/** @type {(app: App, table: Table) => Drawn} */
function drawTable(app, { title, rows, heading, columns }) {
  const byColumn = title === "W_O" || title === "W_out";
  const pinOfColumn = (/** @type {number} */ column) =>
    byColumn ? drawPin(app, ownerOf([...rows[0], column])) : nothing;
  const pinOfRow = (/** @type {Row} */ row) => (byColumn ? nothing : drawPin(app, ownerOf([...row, 0])));
  return html`
    <table class="numbers">
      <caption>${title}</caption>
      <thead><tr><td></td>${columns.map((name, column) =>
        html`<th scope="col">${name} ${pinOfColumn(column)}</th>`)}</tr></thead>
      <tbody>${rows.map((row) => html`
        <tr>
          <th scope="row">${pinOfRow(row)} ${heading(row)}</th>
          ${columns.map((name, column) => html`
            <td>${numberField(app, [...row, column], `${title}, ${heading(row)}, ${name}`)}</td>`)}
        </tr>`)}</tbody>
    </table>`;
}

/** @type {(app: App, name: string) => Drawn} */
function drawPin({ state }, name) {
  if (!state.shows("training")) return nothing;
  const isPinned = state.pinned.has(name);
  const label = `pin ${state.vectors[name].title}: training leaves it alone`;
  return html`<button type="button" class="pin" aria-pressed=${isPinned} aria-label=${label} title=${label}
    @click=${() => state.togglePin(name)}>${isPinned ? "●" : "○"}</button>`;
}

/** @type {(app: App, address: import("../model.js").Address, label: string) => Drawn} */
function numberField(app, address, label) {
  const { state, hand } = app;
  const number = numberAt(state.kept.weights, address);
  const tags = state.tags(ownerOf(address));
  const where = `number ${address.join()}`;
  /** @type {(text: string) => boolean} */
  const take = (text) => state.attempt(where, () => (
    { weights: replaceNumbers(state.kept.weights, [address], [readNumber(text)]) }));
  return html`
    <input type="text" inputmode="decimal" autocomplete="off" size="7"
      class="number ${state.isLit(tags)}" data-tags=${tags}
      data-address=${address.join(".")} data-value=${number} aria-label=${label} aria-invalid=${isInvalid(app, where)}
      .value=${fieldText(show(number, 4), where in state.problems, state.isTraining)}
      @input=${(/** @type {Event} */ event) => (fieldOf(event).isTyping = true)}
      @change=${(/** @type {Event} */ event) => takeTyped(event, take)}
      @blur=${(/** @type {Event} */ event) => leave(app, event, where)}
      @keydown=${(/** @type {KeyboardEvent} */ event) => {
        giveUp(app, event, where);
        hand.step(event, address);
      }}
      @pointerdown=${(/** @type {PointerEvent} */ event) => hand.scrub(event, address)}>`;
}
