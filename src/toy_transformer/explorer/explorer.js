// The explorer: one state (weights, strings, epoch, κ), and views that are derived from it in each frame.
// Works in JupyterLab, where the kernel adds the horizon, and in a page of its own. Sections: the model, the
// notation, the code of a state, drawing, the views, the controls, the widget.

// ---------------------------------------------------------------- the model

const LETTERS = ["a", "b", "c"];
const TOKENS = ["CLS", ...LETTERS]; // what attention may read
const VOCABULARY = ["CLS", "PAD", ...LETTERS];
const MATRICES = ["W_Q", "W_K", "W_V", "W_O", "W_in", "W_out", "classifier"];

function dot(x, y) {
  let sum = 0;
  for (let i = 0; i < x.length; i++) sum += x[i] * y[i];
  return sum;
}
const total = (x) => x.reduce((sum, number) => sum + number, 0);
const times = (matrix, x) => matrix.map((row) => dot(row, x));
const plus = (x, y) => x.map((number, i) => number + y[i]);

/** The error function, by Kummer's series, whose terms are all positive (Abramowitz and Stegun, 7.1.6). */
export function erf(x) {
  if (Math.abs(x) > 6) return Math.sign(x);
  let [term, sum] = [x, x];
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}
const gelu = (x) => (x * (1 + erf(x / Math.SQRT2))) / 2;

/** What no string changes: for each head the query of CLS, and the keys and values of CLS, a, b, c. */
export function project(weights) {
  return weights.W_Q.map((row, head) => ({
    query: dot(row, weights.CLS),
    keys: TOKENS.map((token) => dot(weights.W_K[head], weights[token])),
    values: TOKENS.map((token) => dot(weights.W_V[head], weights[token])),
  }));
}

/** Loops, not `map`: the map of all strings asks for this about a thousand times in each frame. */
function attend({ query, keys, values }, logMultiplicities, factor) {
  const scores = new Array(keys.length);
  const attentionWeights = new Array(keys.length);
  let highest = -Infinity;
  for (let i = 0; i < keys.length; i++) {
    scores[i] = factor * query * keys[i] + logMultiplicities[i];
    if (scores[i] > highest) highest = scores[i];
  }
  let sum = 0;
  for (let i = 0; i < keys.length; i++) sum += attentionWeights[i] = Math.exp(scores[i] - highest);
  for (let i = 0; i < keys.length; i++) attentionWeights[i] /= sum;
  return { scores, attentionWeights, result: dot(attentionWeights, values) };
}

/** The forward pass for letter counts, or shares, as `model.py` has it, for heads of size 1 and no norm. */
export function trace(weights, counts, { lengthScaling = 0, attendCls = false } = {}, projected = project(weights)) {
  const factor = lengthScaling > 0 ? Math.max(1, lengthScaling * Math.log(total(counts))) : 1;
  const logMultiplicities = [attendCls ? 0 : -Infinity, ...counts.map(Math.log)];
  const heads = projected.map((head) => attend(head, logMultiplicities, factor));
  const attentionOutput = times(weights.W_O, heads.map((head) => head.result));
  const afterAttention = plus(weights.CLS, attentionOutput);
  const feedForward = times(weights.W_out, times(weights.W_in, afterAttention).map(gelu));
  const transformed = plus(afterAttention, feedForward);
  return { heads, path: [weights.CLS, afterAttention, transformed], logit: dot(weights.classifier[0], transformed) };
}

const isPositive = (counts) => counts[0] > 0 && counts[1] > 0;

// ---------------------------------------------------------------- the notation

const MAX_STRINGS = 10;
const LONGEST = 1e15;

/** Letter counts of "ab{100}"; throws an error that says what is wrong. */
export function parse(string) {
  const counts = [0, 0, 0];
  let position = 0;
  while (position < string.length || position === 0) {
    const span = /^([abc])(?:\{0*([1-9][0-9]*)\})?(?!\{)/.exec(string.slice(position));
    if (!span) {
      const found = string[position] === undefined ? "the end" : `'${string.slice(position, position + 8)}'`;
      throw new Error(`“${brief(string)}”, position ${position}: expected a, b, c or such as b{100}, found ${found}`);
    }
    counts[LETTERS.indexOf(span[1])] += span[2] ? Number(span[2]) : 1;
    position += span[0].length;
  }
  if (total(counts) > LONGEST) throw new Error(`“${brief(string)}” is longer than 10^15 letters`);
  return counts;
}

export function splitStrings(text) {
  const strings = text.replace(/[,\s]+$/, "").split(",").map((string) => string.trim());
  if (strings.length > MAX_STRINGS) throw new Error(`${strings.length} strings: at most ${MAX_STRINGS} fit`);
  strings.forEach(parse);
  return [...new Set(strings)];
}

function readNumber(text) {
  const plain = String(text).trim().replace("−", "-");
  if (!/^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?$/i.test(plain)) throw new Error(`“${brief(String(text))}” is not a number`);
  const number = Math.fround(Number(plain));
  if (Math.abs(number) > LARGEST) throw new Error(`${number} is too large: at most ${LARGEST} here`);
  return number;
}
const LARGEST = 1000;
const LARGEST_SCALING = 1e6;

// ---------------------------------------------------------------- the code of a state

const PREFIX = "TT1";

const copyWeights = (weights) => JSON.parse(JSON.stringify(weights));

/** Every number of a model as [matrix, row, column]; an embedding has its one row as a matrix. */
const addresses = (weights) =>
  [...VOCABULARY, ...MATRICES].flatMap((name) =>
    VOCABULARY.includes(name)
      ? weights[name].map((_, column) => [name, null, column])
      : weights[name].flatMap((row, i) => row.map((_, column) => [name, i, column])),
  );
const rowAt = (weights, [name, row]) => (row === null ? weights[name] : weights[name][row]);
const numberAt = (weights, address) => rowAt(weights, address)[address[2]];

export function checksum(text) {
  let hash = 2166136261; // FNV-1a
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 16777619) >>> 0;
  return hash.toString(36);
}

/** A line of text that holds the whole state. */
export function encode({ weights, lengthScaling, strings, name, epoch }) {
  const numbers = Float32Array.from([...addresses(weights).map((at) => numberAt(weights, at)), lengthScaling]);
  const bytes = String.fromCharCode(...new Uint8Array(numbers.buffer));
  const packed = btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  const body = [PREFIX, packed, strings.join(","), encodeURIComponent(name).replaceAll(".", "%2E"), epoch ?? ""].join(".");
  return `${body}.${checksum(body)}`;
}

/** The state of a code; `like` has weights of the same sizes. Throws an error that says what is wrong. */
export function decode(code, like) {
  const parts = code.trim().split(".");
  if (parts[0] !== PREFIX) throw new Error(`a code begins with ${PREFIX}.`);
  if (parts.length !== 6) throw new Error(`a code has 6 parts with dots between them, this one has ${parts.length}`);
  if (checksum(parts.slice(0, 5).join(".")) !== parts[5]) throw new Error("something in it is missing or changed");
  const bytes = Uint8Array.from(atob(parts[1].replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  const places = addresses(like);
  if (bytes.length !== 4 * (places.length + 1)) throw new Error(`it does not hold ${places.length} numbers and κ`);
  const numbers = new Float32Array(bytes.buffer);
  const weights = copyWeights(like);
  places.forEach((at, i) => (rowAt(weights, at)[at[2]] = readNumber(numbers[i])));
  const lengthScaling = numbers[places.length];
  if (!(lengthScaling >= 0 && lengthScaling <= LARGEST_SCALING)) throw new Error(`κ is ${lengthScaling}: expected 0 to ${LARGEST_SCALING}`);
  if (!/^[0-9]{0,4}$/.test(parts[4])) throw new Error(`epoch ${brief(parts[4])}: expected a whole number`);
  const epoch = parts[4] === "" ? null : Number(parts[4]);
  return { weights, lengthScaling, strings: splitStrings(parts[2]), name: decodeURIComponent(parts[3]), epoch };
}

// ---------------------------------------------------------------- drawing

const SVG_TAGS = new Set(["svg", "g", "line", "path", "circle", "rect", "text", "polygon"]);

/** Describe an element; the last argument is its text or its children. */
const element = (tag, attributes = {}, content = []) => ({ tag, attributes, content });

/** Make the children of a node what the descriptions say; elements stay where tag and `key` stay. */
function update(parent, descriptions) {
  descriptions.forEach((wanted, i) => {
    let node = parent.childNodes[i];
    if (node?.description?.tag !== wanted.tag || node.description.attributes.key !== wanted.attributes.key) {
      const fresh = SVG_TAGS.has(wanted.tag)
        ? document.createElementNS("http://www.w3.org/2000/svg", wanted.tag)
        : document.createElement(wanted.tag);
      fresh.description = { tag: wanted.tag, attributes: {}, content: [] };
      node ? parent.replaceChild(fresh, node) : parent.append(fresh);
      node = fresh;
    }
    setAttributes(node, node.description.attributes, wanted.attributes);
    if (Array.isArray(wanted.content)) update(node, wanted.content.flat().filter(Boolean));
    else if (node.description.content !== wanted.content) node.textContent = wanted.content;
    if ("value" in wanted.attributes) setValue(node, wanted.attributes.value);
    node.description = wanted;
  });
  while (parent.childNodes.length > descriptions.length) parent.lastChild.remove();
}

function setAttributes(node, old, wanted) {
  for (const name in old) if (!(name in wanted)) node.removeAttribute(name);
  for (const name in wanted) {
    const value = wanted[name];
    if (name.startsWith("on")) node[name] ??= (event) => node.description.attributes[name](event);
    else if (name === "checked") node.checked = value;
    else if (name !== "key" && name !== "value" && old[name] !== value) node.setAttribute(name, value);
  }
}

/** What a person is typing stays. */
function setValue(node, value) {
  if (!node.isTyping && node.value !== String(value)) node.value = value;
}

const show = (number, digits = 2) => {
  const text = number.toFixed(digits);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
};
const vector = ([x, y]) => `(${show(x)}, ${show(y)})`;
const brief = (text) => (text.length <= 24 ? text : `${text.slice(0, 9)}…${text.slice(-14)}`);
const weightText = (weight) => (weight > 0 && weight < 0.001 ? weight.toExponential(1) : show(weight, 3));

/** The end of an axis from −limit to limit that has room for the numbers. */
function niceLimit(numbers) {
  const largest = 1.12 * Math.max(0.5, ...numbers.map(Math.abs));
  const power = 10 ** Math.floor(Math.log10(largest));
  return power * [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * power >= largest);
}

/** Move positions apart as little as possible until none is nearer than `gap`, and keep them within [low, high]. */
function spread(positions, gap, low, high) {
  const order = positions.map((_, i) => i).sort((i, j) => positions[i] - positions[j]);
  const pools = [];
  order.forEach((index, i) => {
    pools.push({ sum: positions[index] - i * gap, size: 1 });
    while (pools.length > 1 && mean(pools.at(-2)) > mean(pools.at(-1))) {
      const last = pools.pop();
      pools.at(-1).sum += last.sum;
      pools.at(-1).size += last.size;
    }
  });
  const places = [];
  const starts = pools.flatMap((pool) => Array(pool.size).fill(mean(pool)));
  const last = low + gap * (positions.length - 1) > high ? low : high - gap * (positions.length - 1);
  order.forEach((index, i) => (places[index] = Math.min(Math.max(starts[i], low), last) + i * gap));
  return places;
}
const mean = ({ sum, size }) => sum / size;

/** Write labels beside their points, each at the first of several places that nothing else covers, lines if need be. */
function placeLabels(labels, { width, height }, taken = [], lines = []) {
  const boxes = labels.map(({ x, y }) => [x - 7, y - 7, x + 7, y + 7]).concat(taken);
  const dots = lines.flatMap(dotsAlong).filter(([x, y]) => x > 0 && x < width && y > 0 && y < height);
  return labels.map(({ x, y, text, attributes }) => {
    const w = 7.7 * text.length + 2;
    const around = [12, 24, 38].flatMap((far) => [
      [x - w / 2, y - far - 7], [x - w / 2, y + far - 7], [x + far, y - 7], [x - far - w, y - 7],
      [x + far - 2, y - far - 5], [x + far - 2, y + far - 9], [x - far - w + 2, y - far - 5], [x - far - w + 2, y + far - 9],
    ]).map(([left, top]) => [Math.min(Math.max(left, 0), width - w), top]);
    const cost = ([left, top]) => {
      const box = [left, top, left + w, top + 14];
      const outside = top < 0 || box[3] > height;
      const crossed = dots.filter((other) => overlap(box, other)).length;
      return 100 * outside + 10 * boxes.filter((other) => overlap(box, other)).length + crossed;
    };
    const best = around.reduce((a, b) => (cost(b) < cost(a) ? b : a));
    boxes.push([best[0], best[1], best[0] + w, best[1] + 14]);
    return element("text", { x: best[0] + 1, y: best[1] + 11.5, ...attributes }, text);
  });
}
function dotsAlong([[x1, y1], [x2, y2]]) {
  const steps = Math.ceil(Math.hypot(x2 - x1, y2 - y1) / 8) + 1;
  return Array.from({ length: steps }, (_, i) => [x1 + ((x2 - x1) * i) / steps, y1 + ((y2 - y1) * i) / steps]).map(([x, y]) => [x, y, x, y]);
}
const overlap = (p, q) => p[0] < q[2] && q[0] < p[2] && p[1] < q[3] && q[1] < p[3];

/** The marker of a token, around the origin: one shape for each, as in the static pictures. */
const MARKERS = {
  PAD: "M-5,-5 L5,5 M-5,5 L5,-5",
  CLS: "M0,-7.5 L7.5,0 L0,7.5 L-7.5,0 Z",
  a: "M-6,0 A6,6 0 1 0 6,0 A6,6 0 1 0 -6,0 Z",
  b: "M-5.5,-5.5 H5.5 V5.5 H-5.5 Z",
  c: "M0,-7 L6.5,5 L-6.5,5 Z",
};

function arrow(from, to, attributes) {
  const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
  const length = Math.hypot(dx, dy);
  const line = { x1: from[0], y1: from[1], x2: to[0], y2: to[1], ...attributes };
  if (length < 1) return [element("line", line)];
  const [ux, uy] = [dx / length, dy / length];
  const head = Math.min(9, length);
  const side = (s) => `${to[0] - head * ux + s * head * 0.45 * uy},${to[1] - head * uy - s * head * 0.45 * ux}`;
  return [
    element("line", line),
    element("polygon", { points: `${to.join()} ${side(1)} ${side(-1)}`, class: `${attributes.class} tip` }),
  ];
}

// ---------------------------------------------------------------- vectors that can be moved

/** The 18 vectors: where their two numbers stand, what they are called, and what is lit up with them. */
function vectorsOf(weights) {
  const [heads, units] = [Object.keys(weights.W_Q).map(Number), Object.keys(weights.W_in).map(Number)];
  const vectors = {};
  for (const token of VOCABULARY) {
    vectors[token] = { at: [[token, null, 0], [token, null, 1]], label: token, title: `embedding of ${token}`, kind: token };
  }
  const add = (matrix, index, at, title, kind) =>
    (vectors[`${matrix}.${index}`] = { at, label: `${matrix}${kind === "classifier" ? "" : ` ${index}`}`, title, kind });
  for (const head of heads) {
    for (const matrix of ["W_Q", "W_K", "W_V"]) {
      add(matrix, head, [[matrix, head, 0], [matrix, head, 1]], `${matrix}, row of head ${head}`, `head${head % 2}`);
    }
    add("W_O", head, [["W_O", 0, head], ["W_O", 1, head]], `W_O, column of head ${head}`, `head${head % 2}`);
  }
  for (const unit of units) {
    add("W_in", unit, [["W_in", unit, 0], ["W_in", unit, 1]], `W_in, row of unit ${unit}`, "unit");
    add("W_out", unit, [["W_out", 0, unit], ["W_out", 1, unit]], `W_out, column of unit ${unit}`, "unit");
  }
  add("classifier", 0, [["classifier", 0, 0], ["classifier", 0, 1]], "classifier", "classifier");
  return vectors;
}
const valueOf = (weights, { at }) => at.map((address) => numberAt(weights, address));

/** The name of the vector that a number belongs to: that of its row, or of its column in W_O and W_out. */
const ownerOf = ([matrix, row, column]) =>
  row === null ? matrix : `${matrix}.${matrix === "W_O" || matrix === "W_out" ? column : row}`;

/** What lights up with a vector, itself first. */
const tagsOf = (name, { kind }) => (kind.startsWith("head") ? `${name} ${kind}` : name);

// ---------------------------------------------------------------- the views

const SIZE = 340;

/** A square around points and the origin, with room for labels: its lower left corner and its side. */
function frameOf(points) {
  const [low, high] = [Math.min, Math.max].map((end) => [0, 1].map((axis) => end(0, ...points.map((point) => point[axis]))));
  const side = 1.3 * Math.max(high[0] - low[0], high[1] - low[1], 0.5);
  return { corner: [0, 1].map((axis) => (low[axis] + high[axis] - side) / 2), side };
}

/** Whether a frame can stay: it has room for the points, and not far too much. */
function fits({ corner, side }, points) {
  const inside = (point) => point.every((x, axis) => x > corner[axis] + 0.04 * side && x < corner[axis] + 0.96 * side);
  return points.every(inside) && frameOf(points).side > 0.6 * side;
}

const scaleOf = ({ corner, side }) => ({
  corner,
  side,
  at: ([x, y]) => [((x - corner[0]) / side) * SIZE, SIZE - ((y - corner[1]) / side) * SIZE],
});

/** The numbers along two edges of a plane, and the names of its dimensions. */
function ticksOf({ corner, side, at }) {
  const power = 10 ** Math.floor(Math.log10(side / 3));
  const step = power * [1, 2, 5, 10].find((times) => times * power >= side / 5);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const along = (axis) => {
    const first = Math.ceil((corner[axis] + 0.08 * side) / step);
    const last = Math.floor((corner[axis] + 0.88 * side) / step);
    return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step).filter((tick) => tick !== 0);
  };
  return [
    { x: SIZE - 4, y: SIZE - 4, anchor: "end", text: "dim 0" },
    { x: 3, y: 11, anchor: "start", text: "dim 1" },
    ...along(0).map((tick) => ({ x: at([tick, 0])[0], y: SIZE - 4, anchor: "middle", text: show(tick, digits) })),
    ...along(1).map((tick) => ({ x: 3, y: at([0, tick])[1] + 4, anchor: "start", text: show(tick, digits) })),
  ];
}

const boxOfTick = ({ x, y, anchor, text }) => {
  const left = x - { start: 0, middle: 0.5, end: 1 }[anchor] * 7 * text.length;
  return [left, y - 10, left + 7 * text.length, y + 2];
};

/** The frame of a plane: axes through the origin and ticks, then what is drawn in it, and its labels. */
function drawPlane(explorer, names, scale, label, content, labels, lines) {
  const [x0, y0] = scale.at([0, 0]);
  const ticks = ticksOf(scale);
  return element("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, class: "plane", role: "group", "aria-label": label, "data-frame": [...scale.corner, scale.side].join(), onpointerdown: (event) => explorer.grab(event, names, scale), onpointermove: (event) => explorer.hover(event, names, scale), ontouchstart: (event) => explorer.touch(event, names, scale) }, [
    element("line", { x1: 0, y1: y0, x2: SIZE, y2: y0, class: "axis" }),
    element("line", { x1: x0, y1: 0, x2: x0, y2: SIZE, class: "axis" }),
    element("g", { key: "ticks" }, ticks.map(({ x, y, anchor, text }) => element("text", { x, y, class: "tick", "text-anchor": anchor }, text))),
    ...content,
    ...names.map((name) => drawHandle(explorer, scale, name)),
    element("g", { key: "labels" }, placeLabels(labels, { width: SIZE, height: SIZE }, ticks.map(boxOfTick), lines)),
  ]);
}

const isToken = (name) => VOCABULARY.includes(name);

/** A vector as a handle: a point for a token, else an arrow from the origin. */
function drawHandle(explorer, scale, name) {
  const vectorInfo = explorer.vectors[name];
  const value = valueOf(explorer.state.weights, vectorInfo);
  const [x, y] = scale.at(value);
  const shape = isToken(name)
    ? [element("path", { d: MARKERS[name], transform: `translate(${x},${y})`, class: "marker" })]
    : arrow(scale.at([0, 0]), [x, y], { class: "arrow" });
  const about = { key: name, "data-vector": name, "data-value": value.join(), ...explorer.lights(tagsOf(name, vectorInfo)) };
  const content = [element("circle", { cx: x, cy: y, r: 13, class: "halo" }), ...shape];
  if (!explorer.editable) return element("g", { ...about, class: `${about.class} ${vectorInfo.kind}` }, content);
  return element("g", {
    ...about,
    class: `handle ${about.class} ${vectorInfo.kind}`,
    tabindex: 0,
    role: "slider",
    "data-lm-suppress-shortcuts": "true",
    "aria-label": `${vectorInfo.title}: arrow keys move it, Home resets it`,
    "aria-valuenow": value[0].toFixed(2),
    "aria-valuetext": vector(value),
    onkeydown: (event) => explorer.nudge(event, name),
  }, content);
}

function labelsOf(explorer, scale, names) {
  return names.map((name) => {
    const { label, kind } = explorer.vectors[name];
    const [x, y] = scale.at(valueOf(explorer.state.weights, explorer.vectors[name]));
    return { x, y, text: label, attributes: { class: `label ${kind}` } };
  });
}

function embeddingsView(explorer) {
  const { weights, head, projection } = explorer.state;
  const arrows = ["W_Q", "W_K", "W_V"].map((matrix) => `${matrix}.${head}`);
  const scale = explorer.scale("embeddings", [...VOCABULARY, ...arrows]);
  const names = [...arrows, ...VOCABULARY];
  const lines = arrows.map((name) => [scale.at([0, 0]), scale.at(valueOf(weights, explorer.vectors[name]))]);
  const row = weights[projection][head];
  const axis = axisAlong(scale, row);
  if (axis) lines.push(axis);
  const tokens = projection === "W_Q" ? ["CLS"] : LETTERS;
  const products = tokens.map((token) => `${token} ${show(dot(row, weights[token]))}`).join(", ");
  const called = { W_Q: "query", W_K: "keys", W_V: "values" };
  return card("embeddings", "Embeddings, and what a head makes of them", [
    drawPlane(explorer, names, scale, `plane of the embeddings, with the arrows of head ${head}`, [
      element("g", { key: "projection" }, drawProjection(scale, row, axis, tokens.map((token) => weights[token]), `head${head % 2}`)),
    ], labelsOf(explorer, scale, names), lines),
    choice(explorer, "head", Object.keys(weights.W_Q), String(head), "head", (value) => ({ head: Number(value) })),
    choice(explorer, "projection onto", ["W_Q", "W_K", "W_V"], projection, "projection", (value) => ({ projection: value })),
    element("p", { class: "caption" }, `Projected onto ${projection} of head ${head}, that is, multiplied by it: ${called[projection]} ${products}.`),
  ]);
}

/** The ends of the axis along a row of a map, outside the picture. */
function axisAlong(scale, row) {
  const length = Math.hypot(...row);
  if (length < 1e-6) return null;
  const far = (scale.side + Math.hypot(...scale.corner)) / length;
  return [far, -far].map((times) => scale.at(row.map((x) => times * x)));
}

/** That axis, and each point's foot on it. */
function drawProjection(scale, row, axis, points, kind) {
  if (!axis) return [];
  const along = row.map((x) => x / Math.hypot(...row));
  return [
    element("line", { x1: axis[0][0], y1: axis[0][1], x2: axis[1][0], y2: axis[1][1], class: `projection ${kind}` }),
    ...points.flatMap((point) => {
      const [x1, y1] = scale.at(point);
      const [x2, y2] = scale.at(along.map((x) => x * dot(along, point)));
      return [
        element("line", { x1, y1, x2, y2, class: "foot" }),
        element("circle", { cx: x2, cy: y2, r: 3, class: `footpoint ${kind}` }),
      ];
    }),
  ];
}

function headsView(explorer) {
  const { traces, projected, chosen } = explorer.derived;
  const strips = projected.map((_, head) => {
    const kind = `head${head % 2}`;
    const lights = explorer.lights(`head${head}`);
    return element("div", { key: head, class: `strip ${lights.class}`, role: "group", "data-tags": lights["data-tags"], "aria-label": `head ${head}` }, [
      element("div", { class: `title ${kind}` }, `head ${head}`),
      drawKeys(explorer, head, kind),
      drawValues(explorer, head, kind),
      weightTable(explorer, traces[chosen].heads[head], head),
    ]);
  });
  return card("heads", "Heads: queries, keys and values", [
    choice(explorer, "attention weights of", explorer.state.strings, explorer.state.strings[chosen], "string", (value) => ({ chosen: value })),
    element("div", { class: "strips" }, strips),
    element("p", { class: "caption" }, "score = query × key + ln(how often the letter occurs). Weights: the exponentials of the scores, divided by their sum. A head's result: the values, each times its weight, added up."),
  ]);
}

/** A number line with points below it; what is above comes with `content(x)`. */
function drawLine(explorer, label, limit, points, height, content) {
  const x = (number) => 190 + (number / limit) * 180;
  const y = height - 46;
  const places = spread(points.map((point) => x(point.number) - 24), 50, 2, 332).map((place) => place + 24);
  return element("svg", { viewBox: `0 0 380 ${height}`, class: "line", role: "img", "aria-label": label, "data-limit": limit }, [
    element("line", { x1: 5, y1: y, x2: 375, y2: y, class: "axis strong" }),
    element("line", { x1: 190, y1: y - 6, x2: 190, y2: y + 6, class: "axis strong" }),
    ...content(x, y),
    ...points.map(({ token, number, name, hollow }, i) => {
      const lights = explorer.lights(token);
      return element("g", { ...lights, class: `${token} ${lights.class}${hollow ? " hollow" : ""}`, "data-name": name, "data-value": number, "data-x": x(number) }, [
        element("line", { x1: x(number), y1: y + 8, x2: places[i], y2: y + 20, class: "leader" }),
        element("path", { d: MARKERS[token], transform: `translate(${x(number)},${y})`, class: "marker" }),
        element("text", { x: places[i], y: y + 31, "text-anchor": "middle", class: `label ${token}` }, token),
        element("text", { x: places[i], y: y + 44, "text-anchor": "middle", class: `label ${token}` }, show(number)),
      ]);
    }),
  ]);
}

function drawKeys(explorer, head, kind) {
  const { projected, tokens } = explorer.derived;
  const { query, keys } = projected[head];
  const points = tokens.map((token) => ({ token, number: keys[TOKENS.indexOf(token)], name: `key ${head} ${token}` }));
  const limit = niceLimit([query, ...points.map((point) => point.number)]);
  const words = points.map(({ token, number }) => `${token} ${show(number)}`).join(", ");
  return drawLine(explorer, `head ${head}: query of CLS ${show(query)}, keys ${words}`, limit, points, 98, (x, y) => [
    element("g", { class: kind, "data-name": `query ${head}`, "data-value": query, "data-x": x(query) }, arrow([190, y - 20], [x(query), y - 20], { class: "arrow" })),
    element("text", { x: Math.min(Math.max(x(query / 2), 62), 318), y: y - 28, "text-anchor": "middle", class: `label ${kind}` }, `query of CLS ${show(query)}`),
    element("text", { x: 5, y: y - 5, class: "tick" }, "keys"),
  ]);
}

function drawValues(explorer, head, kind) {
  const { projected, tokens, traces } = explorer.derived;
  const points = tokens.map((token) => ({ token, number: projected[head].values[TOKENS.indexOf(token)], name: `value ${head} ${token}` }));
  const limit = niceLimit(points.map((point) => point.number));
  const strings = explorer.state.strings;
  const results = traces.map((trace) => trace.heads[head].result);
  const words = points.map(({ token, number }) => `${token} ${show(number)}`).join(", ");
  const told = strings.map((string, i) => `${string} ${show(results[i])}`).join(", ");
  return drawLine(explorer, `head ${head}: values ${words}; results ${told}`, limit, points, 62 + 14 * strings.length, (x, y) =>
    strings.flatMap((string, i) => {
      const at = x(results[i]);
      const text = `${brief(string)} ${show(results[i])}`;
      const left = at > 230;
      const height = y - 12 - 14 * i;
      const lights = explorer.lights(`string:${string}`);
      return element("g", { ...lights, class: `result ${kind} ${lights.class}`, "data-name": `result ${head} ${string}`, "data-value": results[i], "data-x": at }, [
        element("line", { x1: at, y1: y, x2: at, y2: height, class: "stem" }),
        element("circle", { cx: at, cy: height, r: 3, class: "dot" }),
        element("text", { x: at + (left ? -6 : 6), y: height + 4, "text-anchor": left ? "end" : "start", class: `label ${kind}` }, text),
      ]);
    }).concat(element("text", { x: 5, y: y - 5, class: "tick" }, "values")),
  );
}

function weightTable(explorer, head, index) {
  const { tokens, counts, chosen } = explorer.derived;
  const string = explorer.state.strings[chosen];
  const rows = tokens.filter((token) => token === "CLS" || counts[chosen][LETTERS.indexOf(token)] > 0);
  return element("table", { class: "weights" }, [
    element("caption", {}, `head ${index} reads ${brief(string)}`),
    element("thead", {}, [element("tr", {}, ["letter", "score", "weight"].map((title) => element("th", { scope: "col" }, title)))]),
    element("tbody", {}, rows.map((token) => {
      const i = TOKENS.indexOf(token);
      const count = token === "CLS" ? 1 : counts[chosen][i - 1];
      const weight = head.attentionWeights[i];
      return element("tr", { key: token, ...explorer.lights(token) }, [
        element("th", { scope: "row", class: token }, count > 1 ? `${token} ×${count.toLocaleString("en")}` : token),
        element("td", { "data-name": `score ${index} ${token}`, "data-value": head.scores[i] }, show(head.scores[i])),
        element("td", { class: "bar", "data-name": `weight ${index} ${token}`, "data-value": weight }, [
          element("span", { class: `fill ${token}`, style: `width: ${(60 * weight).toFixed(2)}px` }),
          element("span", { class: "number" }, weightText(weight)),
        ]),
      ]);
    })),
  ]);
}

const ARROWS = { attention: "W_O", "feed-forward in": "W_in", "feed-forward out": "W_out" };

function pathView(explorer) {
  const { weights, strings, arrows } = explorer.state;
  const { traces } = explorer.derived;
  const names = ["CLS", "classifier.0", ...Object.keys(explorer.vectors).filter((name) => name.startsWith(`${ARROWS[arrows]}.`))];
  const scale = explorer.scale("path", names, traces.flatMap((each) => each.path));
  const ends = traces.map((trace, i) => {
    const [x, y] = scale.at(trace.path[2]);
    return { x, y, text: `${brief(strings[i])} ${show(trace.logit)}`, attributes: { class: "label" } };
  });
  const lines = traces.flatMap(({ path }) => [path.slice(0, 2), path.slice(1)].map((line) => line.map(scale.at)));
  for (const name of names.slice(1)) lines.push([scale.at([0, 0]), scale.at(valueOf(weights, explorer.vectors[name]))]);
  const words = strings.map((string, i) => `${string} ends at ${vector(traces[i].path[2])}, logit ${show(traces[i].logit)}`);
  return card("path", "The path of CLS, and the line that decides", [
    drawPlane(explorer, names, scale, `path of CLS; ${words.join("; ")}`, [
      element("g", { key: "half-plane" }, drawHalfPlane(scale, weights.classifier[0])),
      element("g", { key: "paths" }, traces.map((trace, i) => drawPath(explorer, scale, strings[i], trace))),
    ], [...labelsOf(explorer, scale, names), ...ends], lines),
    choice(explorer, "arrows of", Object.keys(ARROWS), arrows, "arrows", (value) => ({ arrows: value })),
    element("p", { class: "caption" }, "Solid: + attention. Dashed: + feed-forward. Shaded: the answer is yes. A full point ends there, a hollow one does not."),
  ]);
}

function drawHalfPlane(scale, classifier) {
  const length = Math.hypot(...classifier);
  if (length < 1e-6) return [];
  const [x, y] = classifier.map((number) => (3 * (scale.side + Math.hypot(...scale.corner)) * number) / length);
  const corners = [[-y, x], [y, -x], [y + x, y - x], [x - y, x + y]].map(scale.at);
  return [
    element("polygon", { points: corners.join(" "), class: "yes" }),
    element("line", { x1: corners[0][0], y1: corners[0][1], x2: corners[1][0], y2: corners[1][1], class: "boundary" }),
  ];
}

function drawPath(explorer, scale, string, { path, logit }) {
  const points = path.map(scale.at);
  const lights = explorer.lights(`string:${string}`);
  return element("g", { key: string, ...lights, class: `path ${lights.class}`, "data-name": `path ${string}`, "data-value": path.join(), "data-logit": logit }, [
    ...arrow(points[0], points[1], { class: "step" }),
    ...arrow(points[1], points[2], { class: "step dashed" }),
    element("circle", { cx: points[2][0], cy: points[2][1], r: 5, class: logit > 0 ? "end full" : "end" }),
  ]);
}

const TABLES = [
  { title: "embeddings", rows: VOCABULARY.map((token) => [token, null]), heading: (row) => row[0] },
  ...["W_Q", "W_K", "W_V"].map((name) => ({ title: name, rows: [[name, 0], [name, 1]], heading: (row) => `head ${row[1]}` })),
  { title: "W_O", rows: [["W_O", 0], ["W_O", 1]], heading: (row) => `dim ${row[1]}`, columns: ["head 0", "head 1"] },
  { title: "W_in", rows: [["W_in", 0], ["W_in", 1]], heading: (row) => `unit ${row[1]}` },
  { title: "W_out", rows: [["W_out", 0], ["W_out", 1]], heading: (row) => `dim ${row[1]}`, columns: ["unit 0", "unit 1"] },
  { title: "classifier", rows: [["classifier", 0]], heading: () => "logit" },
];

function numbersView(explorer) {
  const { weights } = explorer.state;
  const tables = TABLES.map(({ title, rows, heading, columns = ["dim 0", "dim 1"] }) =>
    element("table", { class: "numbers" }, [
      element("caption", {}, title),
      element("thead", {}, [element("tr", {}, [element("td"), ...columns.map((name) => element("th", { scope: "col" }, name))])]),
      element("tbody", {}, rows.map((row) =>
        element("tr", { key: row.join() }, [
          element("th", { scope: "row" }, heading(row)),
          ...[0, 1].map((column) => element("td", {}, [numberField(explorer, [...row, column], `${title}, ${heading(row)}, ${columns[column]}`)])),
        ]),
      )),
    ]),
  );
  return card("numbers", "All 36 numbers", [
    element("div", { class: "tables" }, tables),
    element("p", { class: "caption" }, `Type a number, drag it sideways, or press ↑ and ↓. dim: dimension; unit: one of the two of the feed-forward.`),
    problem(explorer, "number"),
  ]);
}

function numberField(explorer, address, label) {
  const number = numberAt(explorer.state.weights, address);
  const owner = ownerOf(address);
  const lights = explorer.lights(tagsOf(owner, explorer.vectors[owner]));
  return element("input", {
    ...lights,
    type: "text",
    inputmode: "decimal",
    autocomplete: "off",
    size: 7,
    class: `number ${lights.class}`,
    "data-lm-suppress-shortcuts": "true",
    "data-address": address.join("."),
    "data-value": number,
    "aria-label": label,
    value: show(number, 4),
    oninput: (event) => (event.target.isTyping = true),
    onchange: (event) => explorer.type(event, address),
    onblur: (event) => explorer.forgetTyping(event),
    onkeydown: (event) => explorer.step(event, address),
    onpointerdown: (event) => explorer.scrub(event, address),
  });
}

function verdictView(explorer) {
  const { traces, counts } = explorer.derived;
  const sentences = explorer.state.strings.map((string, i) => {
    const { logit } = traces[i];
    const right = logit > 0 === isPositive(counts[i]);
    const lights = explorer.lights(`string:${string}`);
    return element("li", { key: string, ...lights, "data-name": `logit ${string}`, "data-value": logit }, [
      element("button", { type: "button", class: "string", "data-lm-suppress-shortcuts": "true", "aria-pressed": String(i === explorer.derived.chosen), onclick: () => explorer.choose({ chosen: string }) }, brief(string)),
      element("span", {}, ` logit ${show(logit, Math.abs(logit) < 0.005 ? 4 : 2)}: ${logit > 0 ? "yes" : "no"}, `),
      element("strong", { class: right ? "right" : "wrong" }, right ? "✓ right" : "✗ wrong"),
    ]);
  });
  const horizon = explorer.horizonText();
  return card("verdict", "The verdict", [
    element("ul", { class: "sentences" }, sentences),
    element("p", { class: `horizon ${horizon.current ? "" : "stale"}`, "data-current": String(horizon.current) }, horizon.text),
    element("p", { key: "live", class: "hidden", role: "status" }, explorer.spoken),
  ]);
}

// ---------------------------------------------------------------- the map of all strings

export const CORNERS = [[30, 310], [330, 310], [180, 310 - 300 * Math.sqrt(0.75)]];
const MAP = { width: 360, height: 340 };
const COLUMNS = 40;
const ROWS = 35;
const LEAST_SHARE = 0.003;
const GREATEST_LOGIT = 12;

const placeOnMap = (shares) => [0, 1].map((axis) => dot(shares, CORNERS.map((corner) => corner[axis])));

/** Strings of two letters stand beside the triangle: they are others than those with a little of the third. */
function placeOfCounts(counts) {
  const length = total(counts);
  const [x, y] = placeOnMap(counts.map((n) => n / length));
  const missing = counts.map((n, i) => (n ? null : i)).filter((i) => i !== null);
  if (missing.length !== 1) return [x, y];
  const [awayX, awayY] = outward(missing[0]);
  return [x + 11 * awayX, y + 11 * awayY];
}

const placeOfCorner = (i) => plus(CORNERS[i], [[-16, 14], [16, 14], [0, -14]][i]);

function outward(missing) {
  const middle = placeOnMap([0, 1, 2].map((i) => (i === missing ? 0 : 0.5)));
  const away = [0, 1].map((axis) => middle[axis] - CORNERS[missing][axis]);
  return away.map((x) => x / Math.hypot(...away));
}

function sharesAt(row, column) {
  const c = 1 - row / ROWS;
  const b = column / COLUMNS - c / 2;
  return [1 - b - c, b, c];
}

/** Logits on a grid over the triangle, row by row from the top; points outside are moved to its rim. */
function logitsOnGrid(explorer) {
  const { projected } = explorer.derived;
  const logits = [];
  for (let row = 0; row <= ROWS; row++) {
    logits.push([]);
    for (let column = 0; column <= COLUMNS; column++) {
      const shares = sharesAt(row, column);
      const near = shares[0] > -0.04 && shares[1] > -0.04;
      logits[row].push(near ? explorer.logit(shares.map((share) => Math.max(share, LEAST_SHARE)), projected) : NaN);
    }
  }
  return logits;
}

function colorOf(palette, logit) {
  const part = (logit / GREATEST_LOGIT + 1) / 2;
  return palette[Math.round(Math.min(Math.max(part, 0), 1) * (palette.length - 1))];
}

function paintMap(canvas, explorer, logits) {
  canvas.width = COLUMNS + 1;
  canvas.height = ROWS + 1;
  const context = canvas.getContext("2d");
  const image = context.createImageData(COLUMNS + 1, ROWS + 1);
  logits.flat().forEach((logit, i) => {
    if (!Number.isNaN(logit)) image.data.set([...colorOf(explorer.palette, logit), 255], 4 * i);
  });
  context.putImageData(image, 0, 0);
}

/** The curve where the logit is 0, as an SVG path: a piece of line for each square of the grid that it crosses. */
function zeroCurve(logits) {
  const point = (row, column) => placeOnMap(sharesAt(row, column));
  const yes = logits.map((row) => row.map((logit) => logit > 0));
  const pieces = [];
  for (let row = 0; row < ROWS; row++) {
    for (let column = 0; column < COLUMNS; column++) {
      const yesses = yes[row][column] + yes[row][column + 1] + yes[row + 1][column + 1] + yes[row + 1][column];
      if (yesses === 0 || yesses === 4) continue;
      const square = [[row, column], [row, column + 1], [row + 1, column + 1], [row + 1, column]];
      const crossings = square.flatMap((start, i) => {
        const end = square[(i + 1) % 4];
        const [from, to] = [logits[start[0]][start[1]], logits[end[0]][end[1]]];
        if (from > 0 === to > 0 || Number.isNaN(from + to)) return [];
        const [p, q] = [point(...start), point(...end)];
        const part = from / (from - to);
        return [`${(p[0] + part * (q[0] - p[0])).toFixed(1)},${(p[1] + part * (q[1] - p[1])).toFixed(1)}`];
      });
      for (let i = 0; i + 1 < crossings.length; i += 2) pieces.push(`M${crossings[i]} L${crossings[i + 1]}`);
    }
  }
  return pieces.join(" ");
}

function drawEdges(explorer) {
  const { projected } = explorer.derived;
  const pieces = 24;
  return [0, 1, 2].flatMap((missing) => {
    const [first, second] = [0, 1, 2].filter((i) => i !== missing);
    const shares = (part) => [0, 1, 2].map((i) => (i === first ? 1 - part : i === second ? part : 0));
    const away = outward(missing).map((x) => 11 * x);
    return Array.from({ length: pieces }, (_, i) => {
      const [x1, y1] = plus(placeOnMap(shares(i / pieces)), away);
      const [x2, y2] = plus(placeOnMap(shares((i + 1) / pieces)), away);
      const color = colorOf(explorer.palette, explorer.logit(shares((i + 0.5) / pieces), projected));
      return element("line", { x1, y1, x2, y2, class: "edge", stroke: `rgb(${color})` });
    });
  });
}

function mapView(explorer) {
  const { strings, mapLength, lengthScaling } = explorer.state;
  const { counts, traces } = explorer.derived;
  const lengthMatters = lengthScaling > 0 || explorer.attendCls;
  const marks = strings.map((string, i) => ({ string, counts: counts[i], wrong: traces[i].logit > 0 !== isPositive(counts[i]) }));
  const horizon = explorer.horizonText();
  const { wrong } = horizon;
  if (wrong && !strings.includes(wrong.string) && explorer.isWrong(wrong.counts)) marks.push({ ...wrong, wrong: true });
  const places = marks.map((mark) => placeOfCounts(mark.counts));
  const labels = placeLabels(
    marks.map(({ string, wrong }, i) => ({ x: places[i][0], y: places[i][1], text: brief(string) + (wrong ? " ✗" : ""), attributes: { class: "label onmap" } })),
    MAP,
    CORNERS.map((_, i) => placeOfCorner(i)).map(([x, y]) => [x - 8, y - 8, x + 8, y + 8]),
  );
  const told = marks.map(({ string, wrong }) => `${string} ${wrong ? "wrong" : "right"}`).join(", ");
  const corners = LETTERS.map((letter, i) => {
    const [x, y] = placeOfCorner(i);
    return element("text", { x, y: y + 4, "text-anchor": "middle", class: `corner label ${letter}` }, letter);
  });
  return card("map", "All strings at once", [
    element("div", { class: "map" }, [
      element("canvas", { "aria-hidden": "true" }),
      element("svg", { viewBox: `0 0 ${MAP.width} ${MAP.height}`, role: "img", "aria-label": `triangle of all proportions of a, b and c: orange yes, purple no; ${told}` }, [
        ...drawEdges(explorer),
        element("path", { d: zeroCurve(explorer.grid), class: "zero" }),
        ...corners,
        ...marks.map(({ string, wrong }, i) => {
          const lights = explorer.lights(`string:${string}`);
          return element("g", { key: string, ...lights, "data-mark": string, transform: `translate(${places[i]})`, class: `mark ${wrong ? "wrong" : ""} ${lights.class}` }, [
            wrong ? element("path", { d: "M-5,-5 L5,5 M-5,5 L5,-5" }) : element("circle", { r: 5 }),
          ]);
        }),
        ...labels,
      ]),
    ]),
    element("p", { class: "caption" }, "A string lies the nearer to a corner the more of that letter it has; strings of two letters lie on the strips. Orange: yes. Purple: no. Black: logit 0."),
    lengthMatters && element("label", { class: "control" }, [
      element("span", {}, `colours for strings of ${Math.round(10 ** mapLength).toLocaleString("en")} letters `),
      element("input", { type: "range", min: 0, max: 6, step: 0.1, "data-lm-suppress-shortcuts": "true", value: mapLength, oninput: (event) => explorer.choose({ mapLength: Number(event.target.value) }) }),
    ]),
  ]);
}

// ---------------------------------------------------------------- the controls

const card = (name, title, content) => element("div", { key: name, class: `card ${name}`, role: "group", "aria-label": title }, [element("div", { class: "title" }, title), ...content]);

const problem = (explorer, where) => {
  const text = explorer.problems[where] ?? "";
  return element("p", { key: `problem ${where}`, class: "problem", role: "alert" }, text);
};

/** A group of radio buttons. */
function choice(explorer, legend, options, chosen, name, change) {
  return element("fieldset", { key: name, class: "choice" }, [
    element("legend", {}, legend),
    ...options.map((option) =>
      element("label", { key: option }, [
        element("input", { type: "radio", name: `${explorer.id}-${name}`, "data-lm-suppress-shortcuts": "true", checked: option === chosen, onchange: () => explorer.choose(change(option)) }),
        element("span", {}, brief(option)),
      ]),
    ),
  ]);
}

const button = (text, label, onclick, disabled = false, key = label) =>
  element("button", { key, type: "button", "aria-label": label, title: label, "aria-disabled": String(disabled), onclick, "data-lm-suppress-shortcuts": "true" }, text);

function textField(explorer, key, label, value, change) {
  return element("label", { key, class: `control ${key}` }, [
    element("span", {}, label),
    element("input", {
      type: "text", value, autocomplete: "off", spellcheck: "false", "data-lm-suppress-shortcuts": "true",
      oninput: (event) => (event.target.isTyping = true),
      onblur: (event) => explorer.forgetTyping(event),
      onchange: (event) => change(event.target.value, event.target),
      onfocus: (event) => key === "code" && event.target.select(),
    }),
  ]);
}

function controls(explorer) {
  const { strings, name, epoch, lengthScaling } = explorer.state;
  const { models, shows } = explorer;
  const epochs = models[name].epochs;
  return element("div", { class: "controls" }, [
    ["verdict", "path", "map", "heads"].some(shows) && textField(explorer, "strings", "strings ", strings.join(", "), (text, field) => explorer.setStrings(text, field)),
    problem(explorer, "strings"),
    Object.keys(models).length > 1 && element("label", { key: "model", class: "control" }, [
      element("span", {}, "model "),
      element("select", { "aria-label": "model", "data-lm-suppress-shortcuts": "true", value: name, onchange: (event) => explorer.goTo(event.target.value, explorer.models[event.target.value].best_epoch) },
        Object.keys(models).map((each) => element("option", { value: each }, each))),
    ]),
    shows("epochs") && epochs.length > 1 && element("div", { key: "epochs", class: "control film" }, [
      button(explorer.playing ? "❚❚" : "▶", explorer.playing ? "pause the training" : "play the training", () => explorer.play(), false, "play"),
      element("label", {}, [
        element("span", {}, ` epoch ${epoch}${explorer.edited ? ", edited" : ""} `),
        element("input", { type: "range", min: 0, max: epochs.length - 1, step: 1, value: epoch, "data-lm-suppress-shortcuts": "true",
          oninput: (event) => explorer.change(explorer.stateAt(name, Number(event.target.value))), onchange: () => explorer.commit("epoch") }),
      ]),
    ]),
    shows("length_scaling") && element("label", { key: "κ", class: "control" }, [
      element("span", {}, `κ = ${show(lengthScaling)}: scores × max(1, κ ln n) `),
      element("input", { type: "range", min: 0, max: Math.max(2, lengthScaling), step: 0.05, value: lengthScaling, "data-lm-suppress-shortcuts": "true",
        oninput: (event) => explorer.change({ lengthScaling: Math.fround(Number(event.target.value)) }), onchange: () => explorer.commit("κ") }),
    ]),
    explorer.editable && element("div", { key: "history", class: "control" }, [
      button("↶ undo", "undo", () => explorer.undo(), explorer.past.length === 0),
      button("↷ redo", "redo", () => explorer.redo(), explorer.future.length === 0),
      button("reset", "reset all numbers", () => explorer.reset(), !explorer.edited),
    ]),
    explorer.editable && element("details", { key: "code" }, [
      element("summary", { "data-lm-suppress-shortcuts": "true" }, "this state as a code"),
      textField(explorer, "code", "copy it, or paste another ", encode(explorer.state), (text, field) => explorer.setCode(text, field)),
      problem(explorer, "code"),
    ]),
    !explorer.editable && element("p", { class: "caption" }, "This model has other sizes than the one of 36 numbers: it can be looked at, not changed."),
  ]);
}

const VIEWS = { verdict: verdictView, embeddings: embeddingsView, path: pathView, map: mapView, heads: headsView, numbers: numbersView };

// ---------------------------------------------------------------- the widget

const NO_KERNEL = "How long the model stays right is computed by Python: open the notebook for it.";
const SILENT_KERNEL = "How long the model stays right is computed by the kernel, which does not answer: it is busy, or it was stopped; then run the cells again.";
const SILENCE = 1500; // milliseconds
const REST = 30; // milliseconds between an answer and the next question: each costs JupyterLab some frames' time
const FILM_STEP = 400;
const REACH = 18; // of a hand, in units of a picture of SIZE
const SAVED = ["weights", "strings", "lengthScaling", "name", "epoch"];
const TRAITS = { weights: "weights", strings: "strings", lengthScaling: "length_scaling", name: "model_name", epoch: "epoch" };

const tagUnder = (event) => event.target.closest?.("[data-tags]")?.dataset.tags.split(" ")[0] ?? null;

/** Leave the processor to the picture first. */
const afterFrame = (task) => requestAnimationFrame(() => setTimeout(task));

class Explorer {
  constructor(model, root) {
    Object.assign(this, { model, root, id: `explorer-${Math.random().toString(36).slice(2)}`, models: model.get("models"), palette: model.get("palette") });
    Object.assign(this, { attendCls: model.get("attend_cls"), editable: model.get("editable") });
    Object.assign(this, { past: [], future: [], problems: {}, spoken: "", playing: null, lit: null, dragging: false, frames: {} });
    this.state = { ...this.traits(), head: 0, projection: "W_K", arrows: "attention", chosen: null, mapLength: 1 };
    this.vectors = vectorsOf(this.state.weights);
    this.saved = this.snapshot();
    const { weights, length_scaling, ...horizon } = model.get("horizon");
    this.horizon = { of: JSON.stringify([weights, length_scaling]), ...horizon };
    this.asked = null;
    this.listen();
    this.draw();
    this.ask();
  }

  shows = (view) => this.model.get("views").includes(view);
  key = () => JSON.stringify([this.state.weights, this.state.lengthScaling]);
  snapshot = () => Object.fromEntries(SAVED.map((name) => [name, this.state[name]]));
  traits = () => Object.fromEntries(Object.entries(TRAITS).map(([name, trait]) => [name, this.model.get(trait)]));

  get reference() {
    const { name, epoch } = this.state;
    return this.models[name].epochs[epoch ?? 0];
  }
  get edited() {
    return JSON.stringify(this.reference) !== JSON.stringify(this.state.weights);
  }

  listen() {
    const adopts = SAVED.map((name) => [`change:${TRAITS[name]}`, () => this.adopt(name)]);
    const follow = () => this.redraw();
    const answer = (content) => this.hear(content);
    const light = (event) => this.light(tagUnder(event));
    const over = (event) => event.target.closest(".plane") ?? light(event); // a plane looks for the nearest vector
    const events = { pointerover: over, focusin: light, pointerleave: () => this.light(null), keydown: (event) => event.stopPropagation() };
    for (const [change, adopt] of [...adopts, ["change:views", follow]]) this.model.on(change, adopt);
    this.model.on("msg:custom", answer);
    for (const [name, handler] of Object.entries(events)) this.root.addEventListener(name, handler);
    this.close = () => {
      for (const [change, adopt] of [...adopts, ["change:views", follow]]) this.model.off(change, adopt);
      this.model.off("msg:custom", answer);
      for (const [name, handler] of Object.entries(events)) this.root.removeEventListener(name, handler);
      clearInterval(this.playing);
      clearTimeout(this.silence);
      clearTimeout(this.resting);
      clearTimeout(this.speaking);
      cancelAnimationFrame(this.frame);
    };
  }

  // ------------------------------------------------ what follows from the state

  derive() {
    const { weights, strings, lengthScaling, chosen } = this.state;
    const settings = { lengthScaling, attendCls: this.attendCls };
    const projected = project(weights);
    const counts = strings.map(parse);
    const traces = counts.map((some) => trace(weights, some, settings, projected));
    const tokens = this.attendCls ? TOKENS : LETTERS;
    return { projected, counts, traces, tokens, chosen: Math.max(0, strings.indexOf(chosen)) };
  }

  isWrong(counts) {
    const { weights, lengthScaling } = this.state;
    return trace(weights, counts, { lengthScaling, attendCls: this.attendCls }).logit > 0 !== isPositive(counts);
  }

  /** The logit of shares of the letters; where lengths matter, of strings of the length chosen on the map. */
  logit(shares, projected) {
    const { weights, lengthScaling, mapLength } = this.state;
    const length = lengthScaling > 0 || this.attendCls ? 10 ** mapLength : 1;
    return trace(weights, shares.map((x) => x * length), { lengthScaling, attendCls: this.attendCls }, projected).logit;
  }

  /** A plane's scale stays in a drag, and as long as it has room for the vectors, at all epochs, and the points. */
  scale(view, names, points = []) {
    const all = [this.state.weights, ...this.models[this.state.name].epochs];
    const shown = names.flatMap((name) => all.map((weights) => valueOf(weights, this.vectors[name]))).concat(points);
    const old = this.frames[view];
    if (!old || !(this.dragging || fits(old, shown))) this.frames[view] = frameOf(shown);
    return scaleOf(this.frames[view]);
  }

  lights(tags) {
    return { "data-tags": tags, class: this.lit && tags.split(" ").includes(this.lit) ? "lit" : "" };
  }

  horizonText() {
    if (!this.model.send && this.horizon.of !== this.key()) return { text: NO_KERNEL, current: false };
    if (this.silent && this.horizon.of !== this.key()) return { text: SILENT_KERNEL, current: false };
    return { text: this.horizon.sentence, wrong: this.horizon.wrong, current: this.horizon.of === this.key() };
  }

  // ------------------------------------------------ drawing

  redraw() {
    this.frame ??= requestAnimationFrame(() => this.draw());
  }

  /** What a hand has changed is drawn as soon as its event has been dealt with: the next frame shows it. */
  redrawAtOnce() {
    if (!this.atOnce) queueMicrotask(() => this.draw());
    this.atOnce = true;
  }

  draw() {
    cancelAnimationFrame(this.frame);
    Object.assign(this, { frame: null, atOnce: false });
    this.derived = this.derive();
    const views = Object.keys(VIEWS).filter(this.shows);
    if (views.includes("map")) this.fillMap();
    update(this.root, [controls(this), element("div", { class: "cards" }, views.map((view) => VIEWS[view](this)))]);
    const canvas = this.root.querySelector("canvas");
    if (canvas && this.painted !== this.grid) paintMap(canvas, this, (this.painted = this.grid));
  }

  fillMap() {
    const key = this.key() + this.state.mapLength;
    if (this.gridOf !== key) [this.gridOf, this.grid] = [key, logitsOnGrid(this)];
  }

  light(tag) {
    if (this.lit !== tag && !this.dragging) {
      this.lit = tag;
      this.redraw();
    }
  }

  /** Read the verdict to a screen reader once the hand rests. */
  speakSoon() {
    clearTimeout(this.speaking);
    this.speaking = setTimeout(() => {
      const sentences = [...this.root.querySelectorAll(".sentences li")].map((item) => item.textContent);
      this.spoken = [...sentences, this.horizonText().text].join(". ");
      this.redraw();
    }, 600);
  }

  // ------------------------------------------------ changing the state

  /** A change under way: everything follows, nothing is remembered yet. A hand ends the film. */
  change(part) {
    this.pause();
    this.show(part);
  }

  show(part) {
    Object.assign(this.state, part);
    this.forgetProblems();
    this.redrawAtOnce();
    queueMicrotask(() => this.ask());
  }

  /** What was refused, and its reason, stay until the next change. */
  forgetProblems() {
    this.problems = {};
    for (const field of this.root.querySelectorAll("[aria-invalid]")) {
      field.isTyping = false;
      field.removeAttribute("aria-invalid");
    }
  }

  /** What is looked at, which no undo brings back. */
  choose(part) {
    Object.assign(this.state, part);
    this.redraw();
  }

  /** The end of a change: it can be undone, and the kernel is told. */
  commit(kind = null) {
    if (this.remember(kind)) this.save();
    else this.redraw();
  }

  /** Make the state before the last changes one to come back to; changes of one `kind` in quick succession are one. */
  remember(kind, snapshot = this.snapshot()) {
    if (JSON.stringify(snapshot) === JSON.stringify(this.saved)) return false;
    const now = performance.now();
    if (kind === null || kind !== this.lastKind || now - this.lastTime > 1000) this.past.push(this.saved);
    Object.assign(this, { future: [], lastKind: kind, lastTime: now, saved: snapshot });
    return true;
  }

  save() {
    afterFrame(() => {
      this.saving = true; // what is set here is told to all who listen, to this explorer as well
      for (const [name, trait] of Object.entries(TRAITS)) this.model.set(trait, this.state[name]);
      this.saving = false;
      this.model.save_changes();
      this.ask();
    });
    this.speakSoon();
    this.redrawAtOnce();
  }

  restore(past, future) {
    this.pause(); // which may add to the past
    const [from, to] = [this[past], this[future]];
    if (!from.length) return;
    to.push(this.saved);
    this.show(from.pop());
    Object.assign(this, { lastKind: null, saved: this.snapshot() });
    this.save();
  }
  undo = () => this.restore("past", "future");
  redo = () => this.restore("future", "past");

  reset() {
    this.change({ weights: this.reference });
    this.commit();
  }

  /** Python, or another view of the same explorer, has set a trait; what a hand is doing goes on. */
  adopt(name) {
    if (this.saving) return;
    const value = this.model.get(TRAITS[name]);
    this.remember("traits", { ...this.saved, [name]: value });
    this.show({ [name]: value });
    this.speakSoon();
  }

  setNumbers(addresses, numbers) {
    const weights = copyWeights(this.state.weights);
    addresses.forEach((at, i) => (rowAt(weights, at)[at[2]] = Math.fround(Math.min(Math.max(numbers[i], -LARGEST), LARGEST))));
    this.change({ weights });
  }

  nudge(event, name) {
    const { at } = this.vectors[name];
    const step = event.shiftKey ? 0.5 : 0.05;
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
    if (event.key === "Home") this.setNumbers(at, at.map((address) => numberAt(this.reference, address)));
    else if (moves[event.key]) this.setNumbers(at, plus(valueOf(this.state.weights, this.vectors[name]), moves[event.key]));
    else return;
    event.preventDefault();
    this.commit(name);
  }

  /** The vector whose point or tip is nearest to the pointer in a plane, if one is near. */
  nearest(event, names, scale) {
    const { left, top, width } = event.currentTarget.getBoundingClientRect();
    const pointer = [event.clientX - left, event.clientY - top].map((x) => (x * SIZE) / width);
    const distances = names.map((name) => {
      const place = scale.at(valueOf(this.state.weights, this.vectors[name]));
      return Math.hypot(place[0] - pointer[0], place[1] - pointer[1]);
    });
    const least = Math.min(...distances);
    return least > REACH ? null : names[distances.indexOf(least)];
  }

  hover(event, names, scale) {
    const name = this.nearest(event, names, scale);
    event.currentTarget.style.cursor = name && this.editable ? "grab" : "";
    this.light(name ?? tagUnder(event));
  }

  /** A finger on a handle moves it, and does not scroll the page. */
  touch(event, names, scale) {
    const { clientX, clientY } = event.touches[0];
    if (this.editable && this.nearest({ currentTarget: event.currentTarget, clientX, clientY }, names, scale)) event.preventDefault();
  }

  grab(event, names, scale) {
    const name = this.nearest(event, names, scale);
    if (event.button !== 0 || !this.editable || !name) return;
    const picture = event.currentTarget;
    const perPixel = scale.side / picture.getBoundingClientRect().width;
    this.drag(event, picture.querySelector(`[data-vector="${name}"]`), name, perPixel, scale);
  }

  drag(event, handle, name, perPixel, scale) {
    event.preventDefault();
    handle.focus({ preventScroll: true });
    const start = valueOf(this.state.weights, this.vectors[name]);
    const within = (number, axis) => {
      const low = scale.corner[axis];
      return Math.min(Math.max(Math.round(number * 100) / 100, low), low + scale.side);
    };
    this.follow(handle, event, (dx, dy) => {
      if (dx || dy) this.setNumbers(this.vectors[name].at, [start[0] + dx * perPixel, start[1] - dy * perPixel].map(within));
    });
  }

  /** Follow a pointer until it is let go: `move` is told how far it has come; without a move nothing changes. */
  follow(node, start, move) {
    this.pause();
    this.dragging = true;
    node.setPointerCapture(start.pointerId);
    node.onpointermove = (event) => move(event.clientX - start.clientX, event.clientY - start.clientY);
    const end = () => {
      node.onpointermove = node.onpointerup = node.onpointercancel = null;
      this.dragging = false;
    };
    node.onpointerup = () => {
      end();
      this.commit();
    };
    node.onpointercancel = () => {
      end();
      this.change(this.saved);
    };
  }

  step(event, address) {
    const sign = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (!sign) return;
    event.preventDefault();
    event.target.isTyping = false;
    this.setNumbers([address], [numberAt(this.state.weights, address) + sign * (event.shiftKey ? 0.5 : 0.05)]);
    this.commit(address.join());
  }

  scrub(event, address) {
    if (event.button !== 0) return;
    const start = numberAt(this.state.weights, address);
    this.follow(event.currentTarget, event, (dx) => {
      if (Math.abs(dx) < 4) return;
      event.target.isTyping = false;
      this.setNumbers([address], [Math.round(100 * (start + dx * 0.01)) / 100]);
    });
  }

  /** Take what was typed, or say what is wrong with it; the last good state stays. */
  attempt(where, field, take) {
    try {
      const part = take();
      field.isTyping = false;
      this.change(part);
      this.commit();
    } catch (error) {
      this.problems[where] = `Not taken: ${error.message}.`;
      field.setAttribute("aria-invalid", "true");
      this.redraw();
    }
  }

  type(event, address) {
    const field = event.target;
    if (!field.isTyping) return;
    this.attempt("number", field, () => {
      const weights = copyWeights(this.state.weights);
      rowAt(weights, address)[address[2]] = readNumber(field.value);
      return { weights };
    });
  }

  setStrings(text, field) {
    this.attempt("strings", field, () => ({ strings: splitStrings(text) }));
  }

  setCode(text, field) {
    this.attempt("code", field, () => {
      const state = decode(text, this.state.weights);
      const { name, epoch, ...rest } = state;
      const history = this.models[name];
      const isKnown = history && (epoch === null) === (history.best_epoch === null) && history.epochs[epoch ?? 0];
      return isKnown ? state : rest;
    });
  }

  /** What could not be taken is still there to be mended until the next change; typing is over. */
  forgetTyping(event) {
    if (event.target.getAttribute("aria-invalid") !== "true") event.target.isTyping = false;
    this.redraw();
  }

  stateAt = (name, epoch) => ({ name, epoch, weights: this.models[name].epochs[epoch ?? 0] });

  goTo(name, epoch) {
    this.change(this.stateAt(name, epoch));
    this.commit();
  }

  play() {
    if (this.playing) return this.pause();
    const last = this.models[this.state.name].epochs.length - 1;
    this.show(this.stateAt(this.state.name, this.state.epoch >= last ? 0 : this.state.epoch));
    this.playing = setInterval(() => {
      if (this.state.epoch >= last) return this.pause();
      this.show(this.stateAt(this.state.name, this.state.epoch + 1));
    }, FILM_STEP);
  }

  pause() {
    if (!this.playing) return;
    clearInterval(this.playing);
    this.playing = null;
    this.commit();
  }

  // ------------------------------------------------ the horizon, from the kernel

  /** Ask for the horizon of the latest state; while one question is open, no other is asked. */
  ask() {
    if (!this.model.send || this.asked || this.horizon.of === this.key()) return;
    this.asked = this.key();
    this.silence = setTimeout(() => {
      this.silent = true;
      this.asked = null;
      this.redraw();
    }, SILENCE);
    try {
      this.model.send({ weights: this.state.weights, length_scaling: this.state.lengthScaling, question: this.asked });
    } catch {
      clearTimeout(this.silence);
      Object.assign(this, { silent: true, asked: null });
    }
  }

  hear({ question, horizon }) {
    clearTimeout(this.silence);
    this.silent = false;
    if (question === this.asked || question === this.key()) this.horizon = { of: question, ...horizon };
    this.resting = setTimeout(() => {
      this.asked = null;
      this.ask();
    }, REST);
    this.speakSoon();
    this.redraw();
  }
}

function render({ model, el }) {
  const root = document.createElement("div");
  root.className = "toy-explorer";
  el.append(root);
  const explorer = new Explorer(model, root);
  return () => explorer.close();
}

export default { render };
