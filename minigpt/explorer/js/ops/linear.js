// Linear layer: every output is a weighted sum of the inputs.

import { product, productOfTransposed, productWithTransposed } from "../product.js";
import { zeros } from "../tensor.js";

// x (T,I), w (I,O), b (O,) -> out (T,O)
//
// out = x w + b, without the last term where b is null.
export function linear_forward(x, w, b = null) {
  const out = product(x, w);
  if (b !== null) {
    addToEveryRow(out, b);
  }
  return [out, { x, w, b }];
}

// dout (T,O) -> dx (T,I), dw (I,O), db (O,), and null for db where there was no b
//
// With rows n: out[n,o] = sum_i x[n,i] w[i,o] + b[o].
export function linear_backward(dout, cache) {
  const { x, w, b } = cache;
  // out = out + b: b is added to every row, so its gradient is the sum over the rows
  let db = null;
  if (b !== null) {
    db = sumOfRows(dout);
  }
  // out = x @ w
  const dw = productOfTransposed(x, dout); // x.T @ dout
  const dx = productWithTransposed(dout, w); // dout @ w.T
  return [dx, dw, db];
}

// out (T,O), b (O,): out += b, in place
export function addToEveryRow(out, b) {
  const [T, O] = out.shape;
  for (let t = 0; t < T; t++) {
    for (let o = 0; o < O; o++) {
      out.data[t * O + o] += b.data[o];
    }
  }
}

// dout (T,O) -> sum over the rows (O,)
export function sumOfRows(dout) {
  const [T, O] = dout.shape;
  const sum = zeros([O]);
  for (let t = 0; t < T; t++) {
    for (let o = 0; o < O; o++) {
      sum.data[o] += dout.data[t * O + o];
    }
  }
  return sum;
}
