// The verdict: the answer for each string, right or wrong, and how far the model is right about all strings.
import { html, nothing } from "lit-html";
import { repeat } from "lit-html/directives/repeat.js";
import { isPositive } from "../model.js";
import { brief, show } from "../notation.js";
import { button } from "./shared.js";

/** @typedef {import("./shared.js").App} App */
/** @typedef {import("./shared.js").Drawn} Drawn */

/** @type {(app: App) => Drawn} */
export function verdictView(app) {
  const { state, derived: { search } } = app;
  return html`
    <div class="card verdict" role="group" aria-label="The verdict" data-card="verdict">
      ${state.shows("training") ? html`<span class="train">${drawTrain(state)}</span>` : nothing}
      ${state.shows("verdict") ? html`
        <ul class="sentences">
          ${repeat(state.kept.strings, (string) => string, (_, i) => sentence(app, i))}
        </ul>` : nothing}
      ${state.shows("horizon") ? html`
        <p class="horizon" data-current=${search.isDone}>${search.sentence}</p>` : nothing}
    </div>`;
}

/** What one waits to see is beside it. @type {(state: App["state"]) => Drawn} */
const drawTrain = (state) => (state.isTraining
  ? button("❚❚ pause", "pause training", () => state.train())
  : button("▶ train", "train", () => state.train()));

/** @type {(app: App, i: number) => Drawn} */
function sentence({ state, derived: { traces, counts, chosen } }, i) {
  const { logit } = traces[i];
  const { strings, required } = state.kept;
  const isRight = logit > 0 === isPositive(counts[i], required);
  const tags = `string:${strings[i]}`;
  return html`
    <li class=${state.isLit(tags)} data-tags=${tags} data-name="logit ${strings[i]}" data-value=${logit}>
      <button type="button" class="string" aria-pressed=${i === chosen}
        @click=${() => state.choose({ chosen: strings[i] })}>${brief(strings[i])}</button>
      <span>logit ${show(logit, Math.abs(logit) < 0.005 ? 4 : 2)}: ${logit > 0 ? "yes" : "no"},</span>
      <strong class=${isRight ? "right" : "wrong"}>${isRight ? "✓ right" : "✗ wrong"}</strong>
    </li>`;
}

/** The same, as a screen reader is to say it. @type {(app: App) => string} */
export function inWords({ state, derived: { traces, counts, search } }) {
  const { strings, required } = state.kept;
  const sentences = strings.map((string, i) => {
    const { logit } = traces[i];
    const right = logit > 0 === isPositive(counts[i], required) ? "right" : "wrong";
    return `${string} logit ${show(logit)}: ${logit > 0 ? "yes" : "no"}, ${right}`;
  });
  const onStrings = state.shows("verdict") ? sentences : [];
  return [...onStrings, ...(state.shows("horizon") ? [search.sentence] : [])].join(". ");
}
