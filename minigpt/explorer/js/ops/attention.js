// Scaled dot-product attention (Vaswani et al. 2017, equation 1; causal as in GPT-1 section 3.1).

import { product, productOfTransposed, productWithTransposed } from "../product.js";
import { scaled, zeros } from "../tensor.js";
import { keepNothing, ops } from "./table.js";

// q (NH,T,D), k (NH,T,D), v (NH,T,D) -> out (NH,T,D)
//
// out = P v,   P = softmax(q k^T / sqrt(D)), where query t sees the keys 0 to t.
// keep: records s and p, and may change a number of them: the p that comes back is what v is multiplied with.
export function attention_forward(q, k, v, keep = keepNothing) {
  const [, , D] = q.shape;
  const scale = 1 / Math.sqrt(D);
  let s = forEachHead(productWithTransposed, q, k); // q @ k^T
  s = scaled(s, scale);
  s = keep("s", hideTheFuture(s));
  const [p, softmax] = ops.softmax_forward(s);
  const a = keep("p", p);
  const out = forEachHead(product, a, v); // a @ v
  return [out, { q, k, v, a, scale, softmax }];
}

// dout (NH,T,D) -> dq (NH,T,D), dk (NH,T,D), dv (NH,T,D)
//
// Where the future is hidden p is 0, and with it ds: nothing else is needed to keep the future out of the gradient.
export function attention_backward(dout, cache, keepGradient = keepNothing) {
  const { q, k, v, a, scale, softmax } = cache;
  // out = a @ v
  const dp = forEachHead(productWithTransposed, dout, v); // dout @ v^T
  const dv = forEachHead(productOfTransposed, a, dout); // a^T @ dout
  keepGradient("p", dp);
  // p = softmax(s)
  const ds = ops.softmax_backward(dp, softmax);
  keepGradient("s", ds);
  // s = q @ k^T * scale
  let dq = forEachHead(product, ds, k); // ds @ k
  dq = scaled(dq, scale);
  let dk = forEachHead(productOfTransposed, ds, q); // ds^T @ q
  dk = scaled(dk, scale);
  return [dq, dk, dv];
}

// s (NH,T,T) -> the same with -Infinity where query t would see a key after t
export function hideTheFuture(s) {
  const [NH, T] = s.shape;
  const hidden = s.copy();
  for (let n = 0; n < NH; n++) {
    for (let t = 0; t < T; t++) {
      const start = (n * T + t) * T;
      hidden.data.fill(-Infinity, start + t + 1, start + T);
    }
  }
  return hidden;
}

// One product for each head: a (NH,...), b (NH,...) -> (NH,...)
export function forEachHead(multiply, a, b) {
  const heads = [];
  for (let n = 0; n < a.shape[0]; n++) {
    heads.push(multiply(a.part(n), b.part(n)));
  }
  const out = zeros([heads.length, ...heads[0].shape]);
  for (let n = 0; n < heads.length; n++) {
    out.part(n).data.set(heads[n].data);
  }
  return out;
}
