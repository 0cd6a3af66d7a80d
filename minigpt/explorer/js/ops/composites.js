// Composites: the coarse parts of a block. They call primitives through the table: a replaced one runs here too.
//
// keep(name, value) records a value of the forward pass and returns it (with one number changed, where the reader
// asked for that); keepGradient(name, gradient) records its gradient.

import { transposed, zeros } from "../tensor.js";
import { keepNothing, ops } from "./table.js";

// x (T,C), w1 (C,F), b1 (F,), w2 (F,C), b2 (C,) -> out (T,C)
//
// out = gelu(x w1 + b1) w2 + b2, position by position (Vaswani et al. 2017, equation 2, with GELU).
export function mlp_forward(x, w1, b1, w2, b2, keep = keepNothing) {
  let [f, fc] = ops.linear_forward(x, w1, b1);
  f = keep("f", f);
  let [a, gelu] = ops.gelu_forward(f);
  a = keep("a", a);
  const [out, proj] = ops.linear_forward(a, w2, b2);
  return [out, { fc, gelu, proj }];
}

// dout (T,C) -> dx (T,C), dw1 (C,F), db1 (F,), dw2 (F,C), db2 (C,)
export function mlp_backward(dout, cache, keepGradient = keepNothing) {
  const [da, dw2, db2] = ops.linear_backward(dout, cache.proj);
  keepGradient("a", da);
  const df = ops.gelu_backward(da, cache.gelu);
  keepGradient("f", df);
  const [dx, dw1, db1] = ops.linear_backward(df, cache.fc);
  return [dx, dw1, db1, dw2, db2];
}

// qkv (T,3C) -> out (T,C)
//
// Multi-head attention of positions among themselves, from their packed queries, keys and values (Vaswani et al. 2017,
// section 3.2.2): each head works on its own C/n_head columns; afterwards the heads stand side by side again.
export function self_attention_forward(qkv, n_head, keep = keepNothing) {
  let [q, k, v] = splitInThree(qkv);
  q = split_heads(q, n_head);
  k = split_heads(k, n_head);
  v = split_heads(v, n_head);
  const [heads, attention] = ops.attention_forward(q, k, v, keep);
  const out = merge_heads(heads);
  return [out, { attention, n_head }];
}

// dout (T,C) -> dqkv (T,3C)
export function self_attention_backward(dout, cache, keepGradient = keepNothing) {
  const { attention, n_head } = cache;
  const dheads = split_heads(dout, n_head);
  let [dq, dk, dv] = ops.attention_backward(dheads, attention, keepGradient);
  dq = merge_heads(dq);
  dk = merge_heads(dk);
  dv = merge_heads(dv);
  return sideBySide([dq, dk, dv]);
}

// h (T,C), w (V,C), targets: T numbers -> loss, a number
//
// The tied head and its loss in one: cross_entropy(h w^T, targets) (GPT-1 equation 2).
export function linear_cross_entropy_forward(h, w, targets, keep = keepNothing) {
  let [logits, head] = ops.linear_forward(h, transposed(w));
  logits = keep("logits", logits);
  const [loss, cross_entropy] = ops.cross_entropy_forward(logits, targets);
  return [loss, { head, cross_entropy }];
}

// dloss, a number -> dh (T,C), dw (V,C)
export function linear_cross_entropy_backward(dloss, cache, keepGradient = keepNothing) {
  const dlogits = ops.cross_entropy_backward(dloss, cache.cross_entropy);
  keepGradient("logits", dlogits);
  const [dh, dw_t] = ops.linear_backward(dlogits, cache.head);
  return [dh, transposed(dw_t)];
}

// x (T,C) -> (NH,T,C/NH): the columns of each head become a sequence of their own
export function split_heads(x, n_head) {
  const [T, C] = x.shape;
  const D = C / n_head;
  const heads = zeros([n_head, T, D]);
  for (let n = 0; n < n_head; n++) {
    for (let t = 0; t < T; t++) {
      const columns = x.row(t).subarray(n * D, (n + 1) * D);
      heads.part(n).row(t).set(columns);
    }
  }
  return heads;
}

// (NH,T,D) -> (T,NH*D): undoes split_heads
export function merge_heads(heads) {
  const [n_head, T, D] = heads.shape;
  const x = zeros([T, n_head * D]);
  for (let n = 0; n < n_head; n++) {
    for (let t = 0; t < T; t++) {
      x.row(t).set(heads.part(n).row(t), n * D);
    }
  }
  return x;
}

// x (T,3C) -> its three parts, each (T,C)
export function splitInThree(x) {
  const [T, width] = x.shape;
  const C = width / 3;
  const parts = [];
  for (let i = 0; i < 3; i++) {
    const part = zeros([T, C]);
    for (let t = 0; t < T; t++) {
      part.row(t).set(x.row(t).subarray(i * C, (i + 1) * C));
    }
    parts.push(part);
  }
  return parts;
}

// parts, each (T,C) -> (T, C times their number): undoes splitInThree
export function sideBySide(parts) {
  const [T, C] = parts[0].shape;
  const x = zeros([T, C * parts.length]);
  for (let i = 0; i < parts.length; i++) {
    for (let t = 0; t < T; t++) {
      x.row(t).set(parts[i].row(t), i * C);
    }
  }
  return x;
}
