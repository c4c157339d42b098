// What a hand does with the explorer: pointer and keys on vectors and numbers.
import { SIZE } from "./geometry.js";
import { numberAt, plus } from "./model.js";
import { fieldOf } from "./views/shared.js";
import { ownerOf, valueOf } from "./vectors.js";

/** @typedef {import("./geometry.js").Scale} Scale */
/** @typedef {import("./model.js").Address} Address */

/** How near a handle is for a mouse and for a finger, in pixels of the screen. */
const [REACH, REACH_OF_FINGER] = [18, 24];
const [STEP, GREAT_STEP] = [0.05, 0.5];
const PER_PIXEL = 0.01;
const LEAST_SCRUB = 4;
const TWO_TAPS = 400; // milliseconds

/** What lights up under the pointer or the focus. @type {(event: Event) => string | null} */
export const tagUnder = (event) => {
  const tagged = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest?.("[data-tags]"));
  return tagged?.dataset.tags?.split(" ")[0] ?? null;
};

export class Hand {
  /** @param {import("./main.js").App} app */
  constructor(app) {
    this.app = app;
    this.state = app.state;
    /** What is held. @type {Element | null} */
    this.node = null;
    this.letGo = () => {};
    /** @type {{ name: string, time: number } | null} */
    this.tapped = null;
  }

  /** The vector whose point or tip is nearest to the pointer in a plane, if one is near.
   * @type {(plane: Element, at: { clientX: number, clientY: number }, names: string[], scale: Scale, reach?: number)
   *   => string | null} */
  nearest(plane, { clientX, clientY }, names, scale, reach = REACH) {
    const { left, top, width } = plane.getBoundingClientRect();
    const distances = names.map((name) => {
      const [x, y] = scale.at(valueOf(this.state.kept.weights, this.state.vectors[name]));
      return Math.hypot((x * width) / SIZE - (clientX - left), (y * width) / SIZE - (clientY - top));
    });
    const least = Math.min(...distances);
    return least > reach ? null : names[distances.indexOf(least)];
  }

  /** @type {(event: PointerEvent, names: string[], scale: Scale) => void} */
  hover(event, names, scale) {
    const plane = /** @type {SVGElement} */ (event.currentTarget);
    const name = this.nearest(plane, event, names, scale);
    plane.style.cursor = name && this.state.editable ? "grab" : "";
    this.app.light(name ?? tagUnder(event));
  }

  /** A finger on a handle moves it, and does not scroll the page.
   * @type {(event: TouchEvent, names: string[], scale: Scale) => void} */
  touch(event, names, scale) {
    const plane = /** @type {Element} */ (event.currentTarget);
    const name = this.nearest(plane, event.changedTouches[0], names, scale, REACH_OF_FINGER);
    if (this.state.editable && name) event.preventDefault();
  }

  /** @type {(event: PointerEvent, names: string[], scale: Scale) => void} */
  grab(event, names, scale) {
    const plane = /** @type {Element} */ (event.currentTarget);
    const reach = event.pointerType === "touch" ? REACH_OF_FINGER : REACH;
    const name = this.nearest(plane, event, names, scale, reach);
    if (event.button !== 0 || event.ctrlKey || !this.state.editable || !name || this.state.held) return;
    event.preventDefault();
    const handle = /** @type {SVGElement} */ (plane.querySelector(`[data-vector="${name}"]`));
    const perPixel = scale.side / plane.getBoundingClientRect().width;
    handle.focus({ preventScroll: true });
    this.drag(event, handle, name, perPixel, scale);
  }

  /** @type {(event: MouseEvent, names: string[], scale: Scale) => void} */
  pin(event, names, scale) {
    const name = this.nearest(/** @type {Element} */ (event.currentTarget), event, names, scale);
    if (name && this.state.editable) this.state.togglePin(name);
  }

  /** @type {(event: PointerEvent, handle: Element, name: string, perPixel: number, scale: Scale) => void} */
  drag(event, handle, name, perPixel, scale) {
    const { at } = this.state.vectors[name];
    const start = valueOf(this.state.kept.weights, this.state.vectors[name]);
    const within = (/** @type {number} */ number, /** @type {number} */ axis) => {
      const low = scale.corner[axis];
      return Math.min(Math.max(Math.round(number * 100) / 100, low), low + scale.side);
    };
    let hasMoved = false;
    this.follow(handle, event, at, name, (dx, dy) => {
      hasMoved ||= dx !== 0 || dy !== 0;
      const moved = dx || dy ? [start[0] + dx * perPixel, start[1] - dy * perPixel].map(within) : start;
      if (hasMoved) this.state.setNumbers(at, moved);
    });
    if (event.pointerType === "touch") this.tap(name);
  }

  /** Two taps of a finger are a double click, which a finger on a handle does not make.
   * @type {(name: string) => void} */
  tap(name) {
    const now = performance.now();
    const isSecond = this.tapped?.name === name && now - this.tapped.time < TWO_TAPS;
    this.tapped = isSecond ? null : { name, time: now };
    if (isSecond) this.state.togglePin(name);
  }

  /** Follow a pointer until it is let go: `move` is told how far it has come; without a move nothing changes.
   * @type {(node: Element, start: PointerEvent, at: Address[], name: string,
   *   move: (dx: number, dy: number) => void) => void} */
  follow(node, start, at, name, move) {
    if (this.state.film) this.state.pause();
    const before = at.map((address) => numberAt(this.state.kept.weights, address));
    this.state.held = name;
    this.app.soon();
    node.setPointerCapture(start.pointerId);
    const gesture = new AbortController();
    this.node = node;
    this.letGo = () => {
      gesture.abort();
      this.node = null;
      this.state.held = null;
      this.state.commit();
    };
    /** @type {(name: string, act: (event: PointerEvent) => void) => void} */
    const on = (name, act) => node.addEventListener(name, (event) => {
      const { pointerId } = /** @type {PointerEvent} */ (event);
      if (pointerId === start.pointerId) act(/** @type {PointerEvent} */ (event));
    }, { signal: gesture.signal });
    on("pointermove", (event) => move(event.clientX - start.clientX, event.clientY - start.clientY));
    on("pointercancel", () => {
      this.state.setNumbers(at, before);
      this.letGo();
    });
    on("pointerup", () => this.letGo());
    on("lostpointercapture", () => this.letGo());
  }

  /** What was held may have left the page. */
  check() {
    if (this.node && !this.node.isConnected) this.letGo();
  }

  /** Keys on a vector. @type {(event: KeyboardEvent, name: string) => void} */
  nudge(event, name) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { state } = this;
    const { at } = state.vectors[name];
    const step = event.shiftKey ? GREAT_STEP : STEP;
    const move = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] }[event.key];
    if (event.key === "Home") state.setNumbers(at, valueOf(state.reference, state.vectors[name]));
    else if (event.key.toLowerCase() === "p") state.togglePin(name);
    else if (move) state.setNumbers(at, plus(valueOf(state.kept.weights, state.vectors[name]), move));
    else return;
    event.preventDefault();
    state.commit(name);
  }

  /** Keys on a number. @type {(event: KeyboardEvent, address: Address) => void} */
  step(event, address) {
    const sign = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (!sign) return;
    event.preventDefault();
    fieldOf(event).isTyping = false;
    const number = numberAt(this.state.kept.weights, address);
    this.state.setNumbers([address], [number + sign * (event.shiftKey ? GREAT_STEP : STEP)]);
    this.state.commit(address.join());
  }

  /** A number that is dragged sideways. @type {(event: PointerEvent, address: Address) => void} */
  scrub(event, address) {
    const field = fieldOf(event);
    if (event.button !== 0 || event.ctrlKey || field.isTyping || this.state.held) return;
    let hasMoved = false;
    const start = numberAt(this.state.kept.weights, address);
    this.follow(field, event, [address], ownerOf(address), (dx) => {
      hasMoved ||= Math.abs(dx) >= LEAST_SCRUB;
      const moved = Math.abs(dx) < LEAST_SCRUB ? start : Math.round(100 * (start + dx * PER_PIXEL)) / 100;
      if (hasMoved) this.state.setNumbers([address], [moved]);
    });
  }
}
