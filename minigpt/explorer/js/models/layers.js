// Layers: an operation, with its parameters and its cache. part: the place of the layer in the model.

import { ops } from "../ops/table.js";

// x (T,I) -> out (T,O)
export function linearLayer_forward(x, part) {
  const [out, cache] = ops.linear_forward(x, part.parameter("weight"), part.parameter("bias"));
  part.keepCache(cache);
  return out;
}

// dout (T,O) -> dx (T,I)
export function linearLayer_backward(dout, part) {
  const [dx, dw, db] = ops.linear_backward(dout, part.cache);
  part.accumulate("weight", dw);
  part.accumulate("bias", db);
  return dx;
}

// ids: T numbers -> out (T,C)
export function embeddingLayer_forward(ids, part) {
  const [out, cache] = ops.embedding_forward(part.parameter("weight"), ids);
  part.keepCache(cache);
  return out;
}

// dout (T,C) -> nothing: ids have no gradient
export function embeddingLayer_backward(dout, part) {
  const dw = ops.embedding_backward(dout, part.cache);
  part.accumulate("weight", dw);
}

// x (T,C) -> out (T,C)
export function layerNorm_forward(x, part, eps) {
  const [out, cache] = ops.layernorm_forward(x, part.parameter("weight"), part.parameter("bias"), eps);
  part.keepCache(cache);
  return part.keep("", out);
}

// dout (T,C) -> dx (T,C)
export function layerNorm_backward(dout, part) {
  part.keepGradient("", dout);
  const [dx, dg, db] = ops.layernorm_backward(dout, part.cache);
  part.accumulate("weight", dg);
  part.accumulate("bias", db);
  return dx;
}

// x (T,C) -> out (T,C)
//
// Multi-head self-attention with its packed input projection and its output projection (Vaswani et al. 2017, section
// 3.2).
export function attentionLayer_forward(x, part, n_head) {
  const qkv = part.keep("qkv", linearLayer_forward(x, part.part("c_attn")));
  const [out, cache] = ops.self_attention_forward(qkv, n_head, part.keep);
  part.keepCache(cache);
  const heads = part.keep("heads", out);
  return part.keep("", linearLayer_forward(heads, part.part("c_proj")));
}

// dout (T,C) -> dx (T,C)
export function attentionLayer_backward(dout, part) {
  part.keepGradient("", dout);
  const dheads = linearLayer_backward(dout, part.part("c_proj"));
  part.keepGradient("heads", dheads);
  const dqkv = ops.self_attention_backward(dheads, part.cache, part.keepGradient);
  part.keepGradient("qkv", dqkv);
  return linearLayer_backward(dqkv, part.part("c_attn"));
}

// x (T,C) -> out (T,C)
//
// The position-wise network, four times as wide inside (Vaswani et al. 2017, section 3.3, with GELU).
export function mlpLayer_forward(x, part) {
  const c_fc = part.part("c_fc");
  const c_proj = part.part("c_proj");
  const [out, cache] = ops.mlp_forward(
    x,
    c_fc.parameter("weight"),
    c_fc.parameter("bias"),
    c_proj.parameter("weight"),
    c_proj.parameter("bias"),
    part.keep,
  );
  part.keepCache(cache);
  return part.keep("", out);
}

// dout (T,C) -> dx (T,C)
export function mlpLayer_backward(dout, part) {
  part.keepGradient("", dout);
  const [dx, dw1, db1, dw2, db2] = ops.mlp_backward(dout, part.cache, part.keepGradient);
  const c_fc = part.part("c_fc");
  const c_proj = part.part("c_proj");
  c_fc.accumulate("weight", dw1);
  c_fc.accumulate("bias", db1);
  c_proj.accumulate("weight", dw2);
  c_proj.accumulate("bias", db2);
  return dx;
}
