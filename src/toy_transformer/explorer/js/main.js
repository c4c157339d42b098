/*! With lit-html (BSD-3-Clause, Google LLC), d3 (ISC, Mike Bostock) and TinyQueue (ISC, Vladimir Agafonkin). */
// The explorer in a page: it draws the state in each frame in which something has changed, and hears the hand.
import { html, noChange, nothing, render as renderInto } from "lit-html";
import { controls } from "./controls.js";
import { Hand, tagUnder } from "./hand.js";
import { State } from "./state.js";
import { embeddingsView } from "./views/embeddings.js";
import { headsView } from "./views/heads.js";
import { mapView } from "./views/map.js";
import { numbersView } from "./views/numbers.js";
import { pathView } from "./views/path.js";
import { trainingView } from "./views/training.js";
import { fieldOf } from "./views/shared.js";
import { inWords, verdictView } from "./views/verdict.js";

/** @type {Record<string, (app: App) => import("./views/shared.js").Drawn>} */
const VIEWS = {
  embeddings: embeddingsView, path: pathView, map: mapView, training: trainingView, heads: headsView,
  numbers: numbersView,
};
/** Milliseconds after the last change: then it is read to a screen reader. */
const REST = 600;
const BETWEEN_EPOCHS = 3000;

/** @type {(task: () => void) => void} */
const afterFrame = (task) => {
  requestAnimationFrame(() => setTimeout(task));
};

export class App {
  /**
   * @param {import("./state.js").WidgetModel} model
   * @param {HTMLElement} root
   */
  constructor(model, root) {
    this.root = root;
    this.id = `explorer-${Math.random().toString(36).slice(2)}`;
    this.palette = /** @type {number[][]} */ (model.get("palette"));
    /** @type {number | null} */
    this.frame = null;
    this.isDue = false;
    this.spoken = "";
    this.spokenAt = 0;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.speaking = undefined;
    this.state = new State(model, () => this.atOnce(), afterFrame);
    this.hand = new Hand(this);
    /** What can be seen, the whole by the name "": while something moves, the other views wait. @type {Set<string>} */
    this.inSight = new Set([""]);
    this.watcher = new IntersectionObserver((entries) => this.look(entries));
    this.watcher.observe(root);
    this.state.horizon(Infinity); // at the beginning nobody waits for a frame
    this.derived = this.state.derive();
    this.told = inWords(this);
    this.listen();
    this.draw();
  }

  listen() {
    this.ended = new AbortController();
    const { signal } = this.ended;
    const light = (/** @type {Event} */ event) => this.light(tagUnder(event));
    this.root.addEventListener("pointerover", (event) => {
      if (!(/** @type {Element} */ (event.target).closest(".plane"))) light(event); // a plane looks for the nearest
    }, { signal });
    this.root.addEventListener("focusin", light, { signal });
    this.root.addEventListener("pointerleave", () => this.light(null), { signal });
    this.root.addEventListener("keydown", (event) => this.key(event), { signal });
  }

  close() {
    this.ended?.abort();
    this.watcher.disconnect();
    this.state.close();
    clearTimeout(this.speaking);
    if (this.frame !== null) cancelAnimationFrame(this.frame);
    this.frame = NaN; // nothing is drawn any more
  }

  /** Keys stay here, where JupyterLab would move cells; those with Ctrl are the page's, but for undo.
   * @type {(event: KeyboardEvent) => void} */
  key(event) {
    if (!event.ctrlKey && !event.metaKey) return event.stopPropagation();
    const key = event.key.toLowerCase();
    if (!["z", "y"].includes(key) || fieldOf(event).isTyping) return;
    event.preventDefault();
    event.stopPropagation();
    if (event.shiftKey || key === "y") this.state.redo();
    else this.state.undo();
  }

  /** Draw in the next frame. */
  soon() {
    this.frame ??= requestAnimationFrame(() => this.draw());
  }

  /** Draw as soon as an event has been dealt with: the next frame shows it. In training, each frame draws anyway. */
  atOnce() {
    if (this.state?.isTraining) return this.soon();
    if (!this.isDue) queueMicrotask(() => this.draw());
    this.isDue = true;
  }

  draw() {
    if (Number.isNaN(this.frame)) return;
    if (this.frame !== null) cancelAnimationFrame(this.frame);
    this.frame = null;
    this.hand.check();
    const isSeen = this.inSight.has("");
    if (this.state.isTraining && isSeen) this.state.trainOn();
    this.isDue = false;
    this.derived = this.state.derive();
    renderInto(this.picture(), this.root);
    for (const node of this.root.querySelectorAll(".cards > .card")) this.watcher.observe(node);
    if (isSeen && (this.state.isTraining || !this.derived.search.isDone)) this.soon();
    this.speakSoon();
  }

  picture() {
    const { shows } = this.state;
    return html`
      ${["verdict", "horizon", "training"].some(shows) ? verdictView(this) : nothing}
      ${controls(this)}
      <div class="cards">${Object.keys(VIEWS).map((name) => (shows(name) ? this.view(name) : nothing))}</div>
      <p class="hidden" role="status">${this.spoken}</p>`;
  }

  /** @type {(name: string) => unknown} */
  view(name) {
    const isDrawn = this.root.querySelector(`[data-card="${name}"]`) !== null;
    return isDrawn && this.state.isMoving && !this.inSight.has(name) ? noChange : VIEWS[name](this);
  }

  /** @type {(entries: IntersectionObserverEntry[]) => void} */
  look(entries) {
    for (const { target, isIntersecting } of entries) {
      const name = /** @type {HTMLElement} */ (target).dataset.card ?? "";
      if (isIntersecting) this.inSight.add(name);
      else this.inSight.delete(name);
    }
    if (this.state.isMoving || !this.derived.search.isDone) this.soon();
  }

  /** @type {(tag: string | null) => void} */
  light(tag) {
    if (this.state.lit === tag || this.state.held) return;
    this.state.lit = tag;
    this.soon();
  }

  /** Say what has been done once it is; where it cannot be, stay silent.
   * @type {(done: Promise<void>, words: string) => void} */
  say(done, words) {
    done.then(() => {
      this.spoken = words;
      this.soon();
    }, () => {});
  }

  /** Read the verdict to a screen reader once all rests; while it trains, the epoch, now and then. */
  speakSoon() {
    const { trainer, isTraining } = this.state;
    const now = performance.now();
    if (isTraining && trainer && now - this.spokenAt > BETWEEN_EPOCHS) {
      Object.assign(this, { spoken: `Training, epoch ${Math.floor(trainer.epoch)}`, spokenAt: now });
    }
    clearTimeout(this.speaking);
    this.speaking = setTimeout(() => {
      const words = inWords(this);
      if (words === this.told) return;
      this.told = this.spoken = words;
      this.soon();
    }, REST);
  }
}

/**
 * What stands for a widget's model in a page without a kernel: a state, by name.
 * @type {(state: Record<string, any>) => import("./state.js").WidgetModel}
 */
export const modelOf = (state) => ({
  get: (name) => state[name],
  set: (name, value) => { state[name] = value; },
  on() {},
  off() {},
  save_changes() {},
});

/**
 * Show an explorer in an element; a page may ask for the state of a code.
 * @type {(of: { model: import("./state.js").WidgetModel, el: HTMLElement, code?: string }) => () => void}
 */
export function render({ model, el, code }) {
  const root = document.createElement("div");
  root.className = "toy-explorer";
  el.append(root);
  const app = new App(model, root);
  if (code) app.state.setCode(code);
  return () => app.close();
}
