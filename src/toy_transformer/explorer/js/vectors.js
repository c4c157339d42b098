// The 18 vectors that can be moved: where their two numbers stand, what they are called, what is lit up with them.
import { VOCABULARY, numberAt } from "./model.js";

/** @typedef {import("./model.js").Address} Address */
/** @typedef {{ at: Address[], label: string, title: string, kind: string, head?: number }} Vector */

/** @type {(weights: import("./model.js").Weights) => Record<string, Vector>} */
export function vectorsOf(weights) {
  /** @type {Record<string, Vector>} */
  const vectors = {};
  for (const token of VOCABULARY) {
    vectors[token] = {
      at: [[token, null, 0], [token, null, 1]], label: token, title: `embedding of ${token}`, kind: token,
    };
  }
  /** @type {(matrix: string, index: number, at: Address[], title: string, kind: string) => void} */
  const add = (matrix, index, at, title, kind) => {
    const label = kind === "classifier" ? matrix : `${matrix} ${index}`;
    const head = kind.startsWith("head") ? index : undefined;
    vectors[`${matrix}.${index}`] = { at, label, title: `${matrix}${title}`, kind, head };
  };
  weights.W_Q.forEach((_, head) => {
    for (const matrix of /** @type {const} */ (["W_Q", "W_K", "W_V"])) {
      add(matrix, head, [[matrix, head, 0], [matrix, head, 1]], `, row of head ${head}`, `head${head % 2}`);
    }
    add("W_O", head, [["W_O", 0, head], ["W_O", 1, head]], `, column of head ${head}`, `head${head % 2}`);
  });
  weights.W_in.forEach((_, unit) => {
    add("W_in", unit, [["W_in", unit, 0], ["W_in", unit, 1]], `, row of unit ${unit}`, "unit");
    add("W_out", unit, [["W_out", 0, unit], ["W_out", 1, unit]], `, column of unit ${unit}`, "unit");
  });
  add("classifier", 0, [["classifier", 0, 0], ["classifier", 0, 1]], "", "classifier");
  return vectors;
}

/** @type {(weights: import("./model.js").Weights, vector: Vector) => number[]} */
export const valueOf = (weights, { at }) => at.map((address) => numberAt(weights, address));

/** The name of the vector that a number belongs to: that of its row, or of its column in W_O and W_out.
 * @type {(address: Address) => string} */
export const ownerOf = ([matrix, row, column]) =>
  row === null ? matrix : `${matrix}.${matrix === "W_O" || matrix === "W_out" ? column : row}`;

/** What lights up with a vector, itself first. @type {(name: string, vector: Vector) => string} */
export const tagsOf = (name, { head }) => (head === undefined ? name : `${name} head${head}`);

/** @type {(name: string) => boolean} */
export const isToken = (name) => VOCABULARY.some((token) => token === name);
