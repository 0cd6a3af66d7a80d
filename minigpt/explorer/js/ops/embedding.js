// Embedding: a table of vectors, one row for each token (or position).

import { zeros } from "../tensor.js";

// w (V,C), ids: T numbers -> out (T,C)
//
// out[t] = w[ids[t]]. The same as a one-hot row times w, without the multiplications by zero (GPT-1 equation 2).
export function embedding_forward(w, ids) {
  const [, C] = w.shape;
  const out = zeros([ids.length, C]);
  for (let t = 0; t < ids.length; t++) {
    out.row(t).set(w.row(ids[t]));
  }
  return [out, { w, ids }];
}

// dout (T,C) -> dw (V,C)
//
// dw[v] = sum of dout[t] over all t with ids[t] = v: a row that is taken twice gets the sum of two gradients.
export function embedding_backward(dout, cache) {
  const { w, ids } = cache;
  const [, C] = w.shape;
  const dw = zeros(w.shape);
  // out[t] = w[ids[t]]
  for (let t = 0; t < ids.length; t++) {
    for (let c = 0; c < C; c++) {
      dw.data[ids[t] * C + c] += dout.data[t * C + c];
    }
  }
  return dw;
}
