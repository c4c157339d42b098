// Where things stand in a picture: the frame of a plane, the ends of an axis, labels that do not cover each other.
import { scaleLinear } from "d3-scale";

/** The side of a plane's picture. */
export const SIZE = 340;

const [START, MIDDLE] = /** @type {const} */ (["start", "middle"]);

/** @typedef {[number, number]} Point */
/** Left, top, right, bottom. @typedef {[number, number, number, number]} Rectangle */
/** A square of the plane: its lower left corner and its side. @typedef {{ corner: number[], side: number }} Frame */
/** A frame, and where its points stand in the picture. @typedef {Frame & { at: (point: number[]) => Point }} Scale */
/** @typedef {{ x: number, y: number, text: string, kind: string }} Label */

/** A square around points and the origin, with room for labels. @type {(points: number[][]) => Frame} */
export function frameOf(points) {
  const [low, high] = [Math.min, Math.max].map((end) =>
    [0, 1].map((axis) => end(0, ...points.map((point) => point[axis]))));
  const side = 1.3 * Math.max(high[0] - low[0], high[1] - low[1], 0.5);
  return { corner: [0, 1].map((axis) => (low[axis] + high[axis] - side) / 2), side };
}

/** Whether a frame can stay: it has room for the points, and not far too much.
 * @type {(frame: Frame, points: number[][]) => boolean} */
export function fits({ corner, side }, points) {
  const inside = (/** @type {number[]} */ point) =>
    point.every((x, axis) => x > corner[axis] + 0.04 * side && x < corner[axis] + 0.96 * side);
  return points.every(inside) && frameOf(points).side > 0.6 * side;
}

/** @type {(frame: Frame) => Scale} */
export const scaleOf = ({ corner, side }) => ({
  corner,
  side,
  at: ([x, y]) => [((x - corner[0]) / side) * SIZE, SIZE - ((y - corner[1]) / side) * SIZE],
});

/** The numbers along two edges of a plane, and the names of its dimensions.
 * @param {Scale} scale
 * @returns {Tick[]} */
export function ticksOf({ corner, side, at }) {
  const along = (/** @type {number} */ axis) => {
    const scale = scaleLinear([corner[axis] + 0.08 * side, corner[axis] + 0.88 * side], [0, 1]);
    const text = scale.tickFormat(4);
    return scale.ticks(4).filter((tick) => tick !== 0).map((tick) => ({ tick, text: text(tick) }));
  };
  return [
    { x: SIZE - 4, y: SIZE - 4, anchor: "end", text: "dim 0" },
    { x: 3, y: 11, anchor: "start", text: "dim 1" },
    ...along(0).map(({ tick, text }) => ({ x: at([tick, 0])[0], y: SIZE - 4, anchor: MIDDLE, text })),
    ...along(1).map(({ tick, text }) => ({ x: 3, y: at([0, tick])[1] + 4, anchor: START, text })),
  ];
}
/** @typedef {{ x: number, y: number, anchor: "start" | "middle" | "end", text: string }} Tick */

/** @type {(tick: Tick) => Rectangle} */
export const boxOfTick = ({ x, y, anchor, text }) => {
  const left = x - { start: 0, middle: 0.5, end: 1 }[anchor] * 7 * text.length;
  return [left, y - 10, left + 7 * text.length, y + 2];
};

/** The end of an axis from −limit to limit that has room for the numbers. @type {(numbers: number[]) => number} */
export const niceLimit = (numbers) =>
  scaleLinear([0, 1.12 * Math.max(0.5, ...numbers.map(Math.abs))], [0, 1]).nice(5).domain()[1];

/**
 * Move positions apart as little as possible until none is nearer than `gap`, and keep them within [low, high].
 * @type {(positions: number[], gap: number, low: number, high: number) => number[]}
 */
export function spread(positions, gap, low, high) {
  const order = positions.map((_, i) => i).sort((i, j) => positions[i] - positions[j]);
  const pools = /** @type {{ sum: number, size: number }[]} */ ([]);
  const mean = (/** @type {{ sum: number, size: number }} */ { sum, size }) => sum / size;
  order.forEach((index, i) => {
    let pool = { sum: positions[index] - i * gap, size: 1 };
    for (let last = pools.at(-1); last && mean(last) > mean(pool); last = pools.at(-1)) {
      pool = { sum: last.sum + pool.sum, size: last.size + pool.size };
      pools.pop();
    }
    pools.push(pool);
  });
  const starts = pools.flatMap((pool) => Array(pool.size).fill(mean(pool)));
  const last = Math.max(low, high - gap * (positions.length - 1));
  const places = positions.map(() => 0);
  order.forEach((index, i) => (places[index] = Math.min(Math.max(starts[i], low), last) + i * gap));
  return places;
}

/**
 * The lower left corner of each label, beside its point: the first of several places that nothing else covers, lines
 * if need be.
 * @type {(labels: Label[], size: { width: number, height: number }, taken?: Rectangle[], lines?: Point[][]) => Point[]}
 */
export function placeLabels(labels, { width, height }, taken = [], lines = []) {
  const boxes = [...labels.map(({ x, y }) => /** @type {Rectangle} */ ([x - 7, y - 7, x + 7, y + 7])), ...taken];
  const dots = lines.flatMap(dotsAlong).filter(([x, y]) => x > 0 && x < width && y > 0 && y < height);
  return labels.map(({ x, y, text }) => {
    const w = 7.7 * text.length + 2;
    const candidates = placesAround(x, y, w).map(([left, top]) => {
      const kept = Math.min(Math.max(left, 0), width - w);
      return /** @type {Rectangle} */ ([kept, top, kept + w, top + 14]);
    });
    const cost = (/** @type {Rectangle} */ box) => {
      const outside = box[1] < 0 || box[3] > height;
      const covered = boxes.filter((other) => overlap(box, other)).length;
      const crossed = dots.filter(([x, y]) => overlap(box, [x, y, x, y])).length;
      return 100 * Number(outside) + 10 * covered + crossed;
    };
    const best = leastBy(candidates, cost);
    boxes.push(best);
    return [best[0] + 1, best[1] + 11.5];
  });
}

/** @type {(x: number, y: number, w: number) => Point[]} */
const placesAround = (x, y, w) => [12, 24, 38].flatMap((far) => /** @type {Point[]} */ ([
  [x - w / 2, y - far - 7], [x - w / 2, y + far - 7], [x + far, y - 7], [x - far - w, y - 7],
  [x + far - 2, y - far - 5], [x + far - 2, y + far - 9],
  [x - far - w + 2, y - far - 5], [x - far - w + 2, y + far - 9],
]));

/** The first of the least; 0 is the least there is. @type {<T>(of: T[], cost: (each: T) => number) => T} */
function leastBy(of, cost) {
  let [best, least] = [of[0], Infinity];
  for (const each of of) {
    const found = cost(each);
    if (found < least) [best, least] = [each, found];
    if (least === 0) break;
  }
  return best;
}

const MAX_DOTS = 300; // a line may go far beyond the picture

/** @type {(line: Point[]) => Point[]} */
function dotsAlong([[x1, y1], [x2, y2]]) {
  const steps = Math.min(Math.ceil(Math.hypot(x2 - x1, y2 - y1) / 8) + 1, MAX_DOTS);
  return Array.from({ length: steps }, (_, i) => [x1 + ((x2 - x1) * i) / steps, y1 + ((y2 - y1) * i) / steps]);
}
/** @type {(p: Rectangle, q: Rectangle) => boolean} */
const overlap = (p, q) => p[0] < q[2] && q[0] < p[2] && p[1] < q[3] && q[1] < p[3];

/** The ends of the line along a direction, outside the picture; null if it has none.
 * @type {(scale: Scale, direction: number[]) => [Point, Point] | null} */
export function axisAlong(scale, direction) {
  const length = Math.hypot(...direction);
  if (length < 1e-6) return null;
  const far = (scale.side + Math.hypot(...scale.corner)) / length;
  return [scale.at(direction.map((x) => far * x)), scale.at(direction.map((x) => -far * x))];
}

/** The corners of the half of the plane that a direction points to; the first two are on its edge.
 * @type {(scale: Scale, direction: number[]) => Point[] | null} */
export function halfPlane(scale, direction) {
  const length = Math.hypot(...direction);
  if (length < 1e-6) return null;
  const [x, y] = direction.map((number) => (3 * (scale.side + Math.hypot(...scale.corner)) * number) / length);
  return [[-y, x], [y, -x], [y + x, y - x], [x - y, x + y]].map(scale.at);
}
