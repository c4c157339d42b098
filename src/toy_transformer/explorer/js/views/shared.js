// What several views are made of: cards, choices, fields, buttons, arrows, and what lights up.
import { html, noChange, nothing, svg } from "lit-html";
import { Directive, directive } from "lit-html/directive.js";
import { brief } from "../notation.js";

/** @typedef {import("../main.js").App} App */
/** @typedef {import("lit-html").TemplateResult | typeof nothing} Drawn */

/** A view's frame, with a title that says what it shows.
 * @type {(name: string, title: string, content: unknown) => Drawn} */
export const card = (name, title, content) => html`
  <div class="card ${name}" role="group" aria-label=${title} data-card=${name}>
    <div class="title">${title}</div>${content}
  </div>`;

/** Why something was not taken; `where` is the beginning of its name. @type {(app: App, where: string) => Drawn} */
export function problem({ state: { problems } }, where) {
  const name = Object.keys(problems).find((name) => name.startsWith(where));
  return html`<p class="problem" role="alert">${name ? problems[name] : ""}</p>`;
}

/** The text of a field, which stays as it is while a person is typing, as long as it is refused, and, where it `rests`,
 * as long as it has the focus. */
class FieldText extends Directive {
  render(/** @type {string} */ text, isRefused = false, rests = false) {
    return isRefused || rests ? noChange : text;
  }

  /** @type {(part: any, values: [string, boolean?, boolean?]) => any} */
  update({ element }, [text, isRefused = false, rests = false]) {
    if (rests && element.matches(":focus")) return noChange;
    if (element.wasRefused && !isRefused && !element.matches(":focus")) element.isTyping = false;
    element.wasRefused = isRefused;
    if (!element.isTyping && element.value !== text) element.value = text;
    return noChange;
  }
}
export const fieldText = directive(FieldText);

/** @typedef {HTMLInputElement & { isTyping?: boolean }} Field */
/** Where an event comes from. @type {(event: Event) => Field} */
export const fieldOf = (event) => /** @type {Field} */ (event.target);

/** Keep what was typed if it is refused, and say so; `take` says whether it was taken.
 * @type {(event: Event, take: (text: string) => boolean) => void} */
export function takeTyped(event, take) {
  const field = fieldOf(event);
  if (!field.isTyping) return;
  field.isTyping = false;
  field.isTyping = !take(field.value);
}

/** @type {(app: App, event: Event, where: string) => void} */
export function leave(app, event, where) {
  if (!app.state.problems[where]) fieldOf(event).isTyping = false;
  app.soon();
}

/** Escape brings back what was there before one began to type.
 * @type {(app: App, event: KeyboardEvent, where: string) => void} */
export function giveUp(app, event, where) {
  if (event.key !== "Escape") return;
  fieldOf(event).isTyping = false;
  app.state.forget(where);
}

/** @type {(app: App, where: string) => "true" | typeof nothing} */
export const isInvalid = (app, where) => (app.state.problems[where] ? "true" : nothing);

/** A field for text, with its label.
 * @type {(app: App, name: string, label: string, text: string, take: (text: string) => boolean,
 *   attempt?: (text: string) => void) => Drawn} */
export const textField = (app, name, label, text, take, attempt) => html`
  <label class="control ${name}"><span>${label}</span>
    <input type="text" autocomplete="off" spellcheck="false"
      .value=${fieldText(text, name in app.state.problems)}
      aria-invalid=${isInvalid(app, name)}
      @input=${(/** @type {Event} */ event) => {
        fieldOf(event).isTyping = true;
        attempt?.(fieldOf(event).value);
      }}
      @focus=${(/** @type {Event} */ event) => name === "code" && fieldOf(event).select()}
      @blur=${(/** @type {Event} */ event) => leave(app, event, name)}
      @keydown=${(/** @type {KeyboardEvent} */ event) => giveUp(app, event, name)}
      @change=${(/** @type {Event} */ event) => takeTyped(event, take)}>
  </label>`;

/**
 * A range from 0 on, with its label: `input` is told each number, `change` when it rests.
 * @type {(of: { label: string, max: number, step: number, value: number, input: (value: number) => void,
 *   change?: () => void }) => Drawn}
 */
export const slider = ({ label, max, step, value, input, change }) => html`
  <label class="control"><span>${label} </span>
    <input type="range" min="0" max=${max} step=${step} .value=${fieldText(String(value))}
      @input=${(/** @type {Event} */ event) => input(Number(fieldOf(event).value))} @change=${change ?? nothing}>
  </label>`;

/** @type {(text: string, label: string, act: () => void, isIdle?: boolean) => Drawn} */
export const button = (text, label, act, isIdle = false) => html`
  <button type="button" aria-label=${label} title=${label} aria-disabled=${isIdle} @click=${act}>${text}</button>`;

/** A group of radio buttons.
 * @type {<T extends string>(app: App, legend: string, options: readonly T[], chosen: string, name: string,
 *   choose: (option: T) => void) => Drawn} */
export const choice = (app, legend, options, chosen, name, choose) => html`
  <fieldset class="choice"><legend>${legend}</legend>${options.map((option) => html`
    <label><input type="radio" name="${app.id}-${name}" .checked=${option === chosen} @change=${() => choose(option)}>
      <span>${brief(option)}</span></label>`)}
  </fieldset>`;

/** A path from where the pen is. Shapes are not moved by `transform`, for which the browser would make layers anew. */
export const CROSS = "m-5,-5l10,10m-10,0l10,-10";

/** Around a token's place: one shape for each, as in the static pictures. @type {Record<string, string>} */
const MARKERS = {
  PAD: CROSS,
  CLS: "m0,-7.5l7.5,7.5l-7.5,7.5l-7.5,-7.5z",
  a: "m-6,0a6,6 0 1 0 12,0a6,6 0 1 0 -12,0z",
  b: "m-5.5,-5.5h11v11h-11z",
  c: "m0,-7l6.5,12h-13z",
};

/** @type {(token: string, x: number, y: number) => Drawn} */
export const marker = (token, x, y) => svg`<path d="M${x},${y}${MARKERS[token]}" class="marker"></path>`;

/** @type {(from: number[], to: number[], kind: string) => Drawn} */
export function arrow(from, to, kind) {
  const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
  const length = Math.max(Math.hypot(dx, dy), 1e-9);
  const head = length < 1 ? 0 : Math.min(9, length) / length;
  const side = (/** @type {number} */ s) =>
    `${to[0] - head * (dx - s * 0.45 * dy)},${to[1] - head * (dy + s * 0.45 * dx)}`;
  return svg`
    <line x1=${from[0]} y1=${from[1]} x2=${to[0]} y2=${to[1]} class=${kind}></line>
    <polygon points="${to[0]},${to[1]} ${side(1)} ${side(-1)}" class="${kind} tip"></polygon>`;
}

/** @type {(at: { x: number, y: number, anchor?: string, kind: string, text: string }) => Drawn} */
export const textAt = ({ x, y, anchor = "start", kind, text }) =>
  svg`<text x=${x} y=${y} text-anchor=${anchor} class=${kind}>${text}</text>`;

/** @type {(labels: import("../geometry.js").Label[], places: number[][]) => Drawn} */
export const drawLabelsAt = (labels, places) => svg`<g>${labels.map(({ text, kind }, i) =>
  textAt({ x: places[i][0], y: places[i][1], kind: `label ${kind}`, text }))}</g>`;

/** The ends of a line as one path. @type {(from: number[], to: number[]) => string} */
export const linePath = (from, to) => `M${from[0]},${from[1]}L${to[0]},${to[1]}`;
