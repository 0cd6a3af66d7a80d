// GPT-2 (Radford, Wu, Child, Luan, Amodei and Sutskever 2019): a decoder whose blocks normalise before they compute.

import { layernorm_forward } from "../ops/layernorm.js";
import { ops } from "../ops/table.js";
import { embeddingParameters, layerNormParameters, linearParameters } from "./initial_weights.js";
import { attentionLayer_backward, attentionLayer_forward } from "./layers.js";
import { embeddingLayer_backward, embeddingLayer_forward } from "./layers.js";
import { layerNorm_backward, layerNorm_forward } from "./layers.js";
import { mlpLayer_backward, mlpLayer_forward } from "./layers.js";

// x = x + Attn(LN1(x)),   x = x + MLP(LN2(x)): the residual stream x is only ever added to (section 2.3).
//
// x (T,C) -> out (T,C)
export function gpt2Block_forward(x, block, config) {
  const eps = config.layer_norm_epsilon;
  let a = layerNorm_forward(x, block.part("ln_1"), eps);
  a = attentionLayer_forward(a, block.part("attn"), config.n_head);
  x = block.keep("x_attn", ops.add(x, a));
  let m = layerNorm_forward(x, block.part("ln_2"), eps);
  m = mlpLayer_forward(m, block.part("mlp"));
  x = block.keep("x", ops.add(x, m));
  return x;
}

// dout (T,C) -> dx (T,C)
export function gpt2Block_backward(dout, block) {
  block.keepGradient("x", dout);
  let dm = mlpLayer_backward(dout, block.part("mlp"));
  dm = layerNorm_backward(dm, block.part("ln_2"));
  const dx = ops.add(dout, dm);
  block.keepGradient("x_attn", dx);
  let da = attentionLayer_backward(dx, block.part("attn"));
  da = layerNorm_backward(da, block.part("ln_1"));
  return ops.add(dx, da);
}

// ids: T numbers -> h (T,C), the normalised output of the last block
export function gpt2_hidden(ids, model, config) {
  const positions = ids.map((_, t) => t);
  const tokens = model.keep("tokens", embeddingLayer_forward(ids, model.part("wte")));
  const places = model.keep("positions", embeddingLayer_forward(positions, model.part("wpe")));
  let x = model.keep("x", ops.add(tokens, places));
  for (let i = 0; i < config.n_layer; i++) {
    x = ops.gpt2Block_forward(x, model.part(`h.${i}`), config);
  }
  x = layerNorm_forward(x, model.part("ln_f"), config.layer_norm_epsilon);
  return x;
}

// dh (T,C) -> nothing: the gradients arrive in the parameters
export function gpt2_hidden_backward(dh, model, config) {
  dh = layerNorm_backward(dh, model.part("ln_f"));
  for (let i = config.n_layer - 1; i >= 0; i--) {
    dh = ops.gpt2Block_backward(dh, model.part(`h.${i}`));
  }
  for (const name of ["x", "positions", "tokens"]) {
    model.keepGradient(name, dh);
  }
  embeddingLayer_backward(dh, model.part("wpe"));
  embeddingLayer_backward(dh, model.part("wte"));
}

// New weights, N(0, 0.02), of which the projections that end on the residual stream are scaled by 1/sqrt(2 n_layer)
// (section 2.3), in the order of the package -> Map(name -> Tensor)
export function gpt2_initial_weights(config, random) {
  const C = config.n_embd;
  const std = config.initializer_range;
  const proj_std = std / Math.sqrt(2 * config.n_layer);
  const weights = new Map();
  embeddingParameters(weights, "wte", config.vocab_size, C, std, random);
  embeddingParameters(weights, "wpe", config.n_positions, C, std, random);
  for (let i = 0; i < config.n_layer; i++) {
    layerNormParameters(weights, `h.${i}.ln_1`, C);
    linearParameters(weights, `h.${i}.attn.c_attn`, C, 3 * C, std, random);
    linearParameters(weights, `h.${i}.attn.c_proj`, C, C, proj_std, random);
    layerNormParameters(weights, `h.${i}.ln_2`, C);
    linearParameters(weights, `h.${i}.mlp.c_fc`, C, 4 * C, std, random);
    linearParameters(weights, `h.${i}.mlp.c_proj`, 4 * C, C, proj_std, random);
  }
  layerNormParameters(weights, "ln_f", C);
  return weights;
}

// The residual stream after the embedding, and after each block.
export function gpt2_stream_names(config) {
  const names = ["x"];
  for (let i = 0; i < config.n_layer; i++) {
    names.push(`h.${i}.x`);
  }
  return names;
}

// x (T,C), of the stream -> what the head reads (T,C): the stream through the last normalisation
export function gpt2_head_input(x, parameters, config) {
  const g = parameters.get("ln_f.weight");
  const b = parameters.get("ln_f.bias");
  const [out] = layernorm_forward(x, g, b, config.layer_norm_epsilon);
  return out;
}

export const GPT2 = {
  kind: "gpt2",
  head: "wte", // the output matrix is the token embedding itself
  hidden: gpt2_hidden,
  hidden_backward: gpt2_hidden_backward,
  initial_weights: gpt2_initial_weights,
  smaller_projections: true, // at first, by 1/sqrt(2 n_layer)
  stream_names: gpt2_stream_names,
  head_input: gpt2_head_input,
};
