// What undo and redo come back to.

/** Changes of one kind within so many milliseconds are one. */
const TOGETHER = 1000;

/** @template State */
export class History {
  /** @param {State} saved */
  constructor(saved) {
    /** The state since the last change that is remembered. */
    this.saved = saved;
    /** @type {State[]} */
    this.past = [];
    /** @type {State[]} */
    this.future = [];
    /** @type {string | null} */
    this.lastKind = null;
    this.lastTime = 0;
  }

  /** Make the state before a change one to come back to; changes of one `kind` in quick succession are one. Say
   * whether anything has changed. @type {(state: State, kind: string | null, now?: number) => boolean} */
  remember(state, kind, now = performance.now()) {
    if (JSON.stringify(state) === JSON.stringify(this.saved)) return false;
    if (kind === null || kind !== this.lastKind || now - this.lastTime > TOGETHER) this.past.push(this.saved);
    Object.assign(this, { future: [], lastKind: kind, lastTime: now, saved: state });
    return true;
  }

  /** The state before, or null. @type {() => State | null} */
  undo() {
    return this.move(this.past, this.future);
  }

  /** @type {() => State | null} */
  redo() {
    return this.move(this.future, this.past);
  }

  /** @type {(from: State[], to: State[]) => State | null} */
  move(from, to) {
    const state = from.pop();
    if (state === undefined) return null;
    to.push(this.saved);
    Object.assign(this, { saved: state, lastKind: null });
    return state;
  }
}
