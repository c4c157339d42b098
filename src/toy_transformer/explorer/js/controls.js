// The controls at the top: strings, the question, model, epoch, κ, undo, and the code of the state.
import { html, nothing } from "lit-html";
import { LETTERS } from "./model.js";
import { show } from "./notation.js";
import { button, fieldOf, problem, slider, textField } from "./views/shared.js";

/** @typedef {import("./main.js").App} App */
/** @typedef {import("./views/shared.js").Drawn} Drawn */

const GREATEST_SCALING = 4; // that the slider goes to; Python can set more

const COPIED = "The link is copied.";

const ALONE = "Python does not answer: it is busy, or stopped; then run the cells again. All here goes on without it.";

/** @type {(app: App) => Drawn} */
export function controls(app) {
  const { state } = app;
  const { strings, lengthScaling } = state.kept;
  const names = Object.keys(state.recorded);
  const take = (/** @type {string} */ text) => state.setStrings(text);
  const attempt = (/** @type {string} */ text) => state.tryStrings(text);
  const usesStrings = ["verdict", "path", "map", "heads"].some(state.shows);
  return html`
    <div class="controls">
      ${usesStrings ? textField(app, "strings", "strings ", strings.join(", "), take, attempt) : nothing}
      ${problem(app, "strings")}
      ${state.isAlone ? html`<p class="problem" role="alert">${ALONE}</p>` : nothing}
      ${state.shows("question") ? drawQuestion(app) : nothing}
      ${names.length > 1 ? drawModels(app, names) : nothing}
      ${state.shows("epochs") && state.recorded[state.kept.name].epochs.length > 1 ? drawFilm(app) : nothing}
      ${state.shows("length_scaling") ? slider({
        label: `κ = ${show(lengthScaling)}: scores × max(1, κ ln n)`,
        max: Math.max(GREATEST_SCALING, lengthScaling, state.history.saved.lengthScaling),
        step: 0.01,
        value: lengthScaling,
        input: (value) => state.change({ lengthScaling: Math.fround(value) }),
        change: () => state.commit("κ"),
      }) : nothing}
      ${state.editable ? drawHistory(app) : html`
        <p class="caption">This model has other sizes than the one of 36 numbers: it can be looked at, not
          changed.</p>`}
    </div>`;
}

/** @type {(app: App) => Drawn} */
const drawQuestion = ({ state }) => html`
  <fieldset class="choice question"><legend>yes, if it contains</legend>${LETTERS.map((letter) => html`
    <label><input type="checkbox" .checked=${state.kept.required.includes(letter)}
      @change=${(/** @type {Event} */ event) => {
        state.require(letter, fieldOf(event).checked);
        fieldOf(event).checked = state.kept.required.includes(letter);
      }}><span>${letter}</span></label>`)}
  </fieldset>`;

/** @type {(app: App, names: string[]) => Drawn} */
const drawModels = ({ state }, names) => html`
  <label class="control"><span>model </span>
    <select aria-label="model" @change=${(/** @type {Event} */ event) => {
      const name = fieldOf(event).value;
      state.goTo(name, state.recorded[name].best_epoch);
    }}>
      ${names.map((name) => html`<option value=${name} .selected=${name === state.kept.name}>${name}</option>`)}
    </select></label>`;

/** @type {(app: App) => Drawn} */
function drawFilm({ state }) {
  const { name } = state.kept;
  const epoch = state.epochOf(name, state.kept.epoch);
  const [text, label] = state.film ? ["❚❚ pause", "pause the replay"] : ["▶ replay", "replay the epochs"];
  return html`
    <div class="control film">
      ${button(text, label, () => state.play())}
      ${slider({
        label: `epoch ${epoch}${state.isEdited ? ", edited" : ""}`,
        max: state.recorded[name].epochs.length - 1,
        step: 1,
        value: epoch,
        input: (value) => state.goThrough(value),
        change: () => state.commit("epoch"),
      })}
    </div>`;
}

/** @type {(app: App) => Drawn} */
function drawHistory(app) {
  const code = app.root.querySelector("details.code[open]") ? app.state.code : "";
  return html`
  <div class="control">
    ${button("↶ undo", "undo", app.state.undo, !app.state.canUndo)}
    ${button("↷ redo", "redo", app.state.redo, !app.state.history.future.length)}
    ${button("reset", "reset all numbers", () => app.state.reset(), !app.state.isEdited)}
  </div>
  <details class="code" @toggle=${() => app.soon()}>
    <summary>this state as a code</summary>
    ${textField(app, "code", "copy it, or paste another ", code, (text) => app.state.setCode(text))}
    ${app.state.model.get("address") ? drawLink(app, `${app.state.model.get("address")}#${code}`) : nothing}
  </details>
  ${problem(app, "code")}`;
}

/** A page has an address, to which the code of a state can be added. @type {(app: App, link: string) => Drawn} */
const drawLink = (app, link) => {
  const copy = () => app.say(navigator.clipboard.writeText(link), COPIED);
  const text = app.spoken === COPIED ? "link copied ✓" : "copy link";
  return html`<a href=${link}>a link to it</a> ${navigator.clipboard ? button(text, "copy the link", copy) : nothing}`;
};
