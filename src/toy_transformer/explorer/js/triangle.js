// The triangle of all strings: a point for each proportion of a, b and c, and the logits over it.
import { contours } from "d3-contour";
import { dot, plus, total } from "./model.js";

export const CORNERS = [[30, 310], [330, 310], [180, 310 - 300 * Math.sqrt(0.75)]];
export const MAP = { width: 360, height: 340 };
/** The grid has so many points less one. */
export const COLUMNS = 40;
export const ROWS = 35;
const LEAST_SHARE = 0.003;
const GREATEST_LOGIT = 12;
const BESIDE = 11;
const PIECES = 24;

/** @typedef {(shares: number[]) => number} LogitOf */

/** @type {(shares: number[]) => number[]} */
const placeOf = (shares) => [0, 1].map((axis) => dot(shares, CORNERS.map((corner) => corner[axis])));

/** Strings of two letters stand beside the triangle: they are others than those with a little of the third.
 * @type {(counts: number[]) => number[]} */
export function placeOfCounts(counts) {
  const place = placeOf(counts.map((count) => count / total(counts)));
  const missing = [0, 1, 2].filter((i) => !counts[i]);
  return missing.length === 1 ? plus(place, outward(missing[0]).map((x) => BESIDE * x)) : place;
}

/** Where the name of a letter stands. @type {(letter: number) => number[]} */
export const placeOfCorner = (letter) => plus(CORNERS[letter], [[-16, 14], [16, 14], [0, -14]][letter]);

/** The direction away from a corner. @type {(missing: number) => number[]} */
function outward(missing) {
  const middle = placeOf([0, 1, 2].map((i) => (i === missing ? 0 : 0.5)));
  const away = [0, 1].map((axis) => middle[axis] - CORNERS[missing][axis]);
  return away.map((x) => x / Math.hypot(...away));
}

/** @type {(row: number, column: number) => number[]} */
function sharesAt(row, column) {
  const c = 1 - row / ROWS;
  const b = column / COLUMNS - c / 2;
  return [1 - b - c, b, c];
}

/** Logits on a grid over the triangle, row by row from the top; those of points outside are of its rim, or missing.
 * @type {(logitOf: LogitOf) => number[]} */
export function logitsOnGrid(logitOf) {
  const logits = [];
  for (let row = 0; row <= ROWS; row++) {
    for (let column = 0; column <= COLUMNS; column++) {
      const shares = sharesAt(row, column);
      const near = shares[0] > -0.04 && shares[1] > -0.04;
      logits.push(near ? logitOf(shares.map((share) => Math.max(share, LEAST_SHARE))) : NaN);
    }
  }
  return logits;
}

/** The curve where the logit is 0, as an SVG path; where it leaves the grid it runs outside the triangle.
 * @type {(logits: number[]) => string} */
export function zeroCurve(logits) {
  const { coordinates } = contours().size([COLUMNS + 1, ROWS + 1]).contour(logits, 0);
  const step = (CORNERS[1][0] - CORNERS[0][0]) / COLUMNS;
  const rise = (CORNERS[0][1] - CORNERS[2][1]) / ROWS;
  const at = (/** @type {number[]} */ [column, row]) =>
    `${(CORNERS[0][0] + (column - 0.5) * step).toFixed(1)},${(CORNERS[2][1] + (row - 0.5) * rise).toFixed(1)}`;
  return coordinates.flat().map((ring) => `M${ring.map(at).join("L")}`).join("");
}

/** @type {<T>(palette: T[], logit: number) => T} */
export function colorOf(palette, logit) {
  const part = (logit / GREATEST_LOGIT + 1) / 2;
  return palette[Math.round(Math.min(Math.max(part, 0), 1) * (palette.length - 1))];
}

/** The strips beside the triangle, for strings of two letters: pieces of line, each with its logit.
 * @type {(logitOf: LogitOf) => { from: number[], to: number[], logit: number }[]} */
export function edges(logitOf) {
  return [0, 1, 2].flatMap((missing) => {
    const [first, second] = [0, 1, 2].filter((i) => i !== missing);
    const shares = (/** @type {number} */ part) =>
      [0, 1, 2].map((i) => ({ [first]: 1 - part, [second]: part, [missing]: 0 })[i]);
    const away = outward(missing).map((x) => BESIDE * x);
    return Array.from({ length: PIECES }, (_, i) => ({
      from: plus(placeOf(shares(i / PIECES)), away),
      to: plus(placeOf(shares((i + 1) / PIECES)), away),
      logit: logitOf(shares((i + 0.5) / PIECES)),
    }));
  });
}
