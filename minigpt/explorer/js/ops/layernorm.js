// Layer normalisation (Ba, Kiros and Hinton 2016, equations 3 and 4).

import { zeros } from "../tensor.js";

// x (T,C), g (C,), b (C,) -> out (T,C)
//
// out = g x_hat + b,   x_hat = (x - mean) / sqrt(var + eps),   mean and (biased) variance of each row.
export function layernorm_forward(x, g, b, eps = 1e-5) {
  const [T, C] = x.shape;
  const out = zeros(x.shape);
  const x_hat = zeros(x.shape);
  const rstd = zeros([T]);
  for (let t = 0; t < T; t++) {
    const start = t * C;
    let mean = 0;
    for (let c = 0; c < C; c++) {
      mean += x.data[start + c] / C;
    }
    let variance = 0;
    for (let c = 0; c < C; c++) {
      const x_mean = x.data[start + c] - mean;
      variance += (x_mean * x_mean) / C;
    }
    rstd.data[t] = 1 / Math.sqrt(variance + eps);
    for (let c = 0; c < C; c++) {
      const x_mean = x.data[start + c] - mean;
      x_hat.data[start + c] = x_mean * rstd.data[t];
      out.data[start + c] = g.data[c] * x_hat.data[start + c] + b.data[c];
    }
  }
  return [out, { x_hat, rstd, g }];
}

// dout (T,C) -> dx (T,C), dg (C,), db (C,)
//
// dx = rstd (dx_hat - mean(dx_hat) - x_hat mean(dx_hat x_hat)). Adding a number to x, or stretching x, does not change
// x_hat; so the parts of dx_hat in these two directions are subtracted.
export function layernorm_backward(dout, cache) {
  const { x_hat, rstd, g } = cache;
  const [T, C] = dout.shape;
  const dx = zeros(dout.shape);
  const dg = zeros([C]);
  const db = zeros([C]);
  const dx_hat = new Float64Array(C);
  for (let t = 0; t < T; t++) {
    const start = t * C;
    // out = g * x_hat + b
    for (let c = 0; c < C; c++) {
      db.data[c] += dout.data[start + c];
      dg.data[c] += dout.data[start + c] * x_hat.data[start + c];
      dx_hat[c] = dout.data[start + c] * g.data[c];
    }
    // x_hat = x_mean * rstd, where x_mean depends on x by the mean (shift), and rstd by the variance (stretch)
    let shift = 0;
    let stretch = 0;
    for (let c = 0; c < C; c++) {
      shift += dx_hat[c] / C;
      stretch += (dx_hat[c] * x_hat.data[start + c]) / C;
    }
    for (let c = 0; c < C; c++) {
      dx.data[start + c] = rstd.data[t] * (dx_hat[c] - shift - x_hat.data[start + c] * stretch);
    }
  }
  return [dx, dg, db];
}
