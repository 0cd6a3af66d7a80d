// GPT-1 (Radford, Narasimhan, Salimans and Sutskever 2018): a decoder whose blocks normalise after each addition.

import { ops } from "../ops/table.js";
import { embeddingParameters, layerNormParameters, linearParameters } from "./initial_weights.js";
import { attentionLayer_backward, attentionLayer_forward } from "./layers.js";
import { embeddingLayer_backward, embeddingLayer_forward } from "./layers.js";
import { layerNorm_backward, layerNorm_forward } from "./layers.js";
import { mlpLayer_backward, mlpLayer_forward } from "./layers.js";

// x = LN1(x + Attn(x)),   x = LN2(x + MLP(x)): the residual stream x is normalised after each addition.
//
// x (T,C) -> out (T,C)
export function gpt1Block_forward(x, block, config) {
  const eps = config.layer_norm_epsilon;
  const a = attentionLayer_forward(x, block.part("attn"), config.n_head);
  x = block.keep("x_attn", ops.add(x, a));
  x = layerNorm_forward(x, block.part("ln_1"), eps);
  const m = mlpLayer_forward(x, block.part("mlp"));
  x = block.keep("x_mlp", ops.add(x, m));
  x = layerNorm_forward(x, block.part("ln_2"), eps);
  return x;
}

// dout (T,C) -> dx (T,C)
export function gpt1Block_backward(dout, block) {
  let dx = layerNorm_backward(dout, block.part("ln_2"));
  block.keepGradient("x_mlp", dx);
  const dm = mlpLayer_backward(dx, block.part("mlp"));
  dx = ops.add(dx, dm);
  dx = layerNorm_backward(dx, block.part("ln_1"));
  block.keepGradient("x_attn", dx);
  const da = attentionLayer_backward(dx, block.part("attn"));
  return ops.add(dx, da);
}

// ids: T numbers -> h (T,C), the output of the last block
export function gpt1_hidden(ids, model, config) {
  const positions = ids.map((_, t) => t);
  const tokens = model.keep("tokens", embeddingLayer_forward(ids, model.part("tokens_embed")));
  const places = model.keep("positions", embeddingLayer_forward(positions, model.part("positions_embed")));
  let x = model.keep("x", ops.add(tokens, places));
  for (let i = 0; i < config.n_layer; i++) {
    x = ops.gpt1Block_forward(x, model.part(`h.${i}`), config);
  }
  return x;
}

// dh (T,C) -> nothing: the gradients arrive in the parameters
export function gpt1_hidden_backward(dh, model, config) {
  for (let i = config.n_layer - 1; i >= 0; i--) {
    dh = ops.gpt1Block_backward(dh, model.part(`h.${i}`));
  }
  for (const name of ["x", "positions", "tokens"]) {
    model.keepGradient(name, dh);
  }
  embeddingLayer_backward(dh, model.part("positions_embed"));
  embeddingLayer_backward(dh, model.part("tokens_embed"));
}

// New weights, N(0, 0.02) as in section 4.1, in the order of the package -> Map(name -> Tensor)
export function gpt1_initial_weights(config, random) {
  const C = config.n_embd;
  const std = config.initializer_range;
  const weights = new Map();
  embeddingParameters(weights, "tokens_embed", config.vocab_size, C, std, random);
  embeddingParameters(weights, "positions_embed", config.n_positions, C, std, random);
  for (let i = 0; i < config.n_layer; i++) {
    linearParameters(weights, `h.${i}.attn.c_attn`, C, 3 * C, std, random);
    linearParameters(weights, `h.${i}.attn.c_proj`, C, C, std, random);
    layerNormParameters(weights, `h.${i}.ln_1`, C);
    linearParameters(weights, `h.${i}.mlp.c_fc`, C, 4 * C, std, random);
    linearParameters(weights, `h.${i}.mlp.c_proj`, 4 * C, C, std, random);
    layerNormParameters(weights, `h.${i}.ln_2`, C);
  }
  return weights;
}

// The residual stream after the embedding, and after each block.
export function gpt1_stream_names(config) {
  const names = ["x"];
  for (let i = 0; i < config.n_layer; i++) {
    names.push(`h.${i}.ln_2`);
  }
  return names;
}

// x (T,C), of the stream -> what the head reads (T,C): the stream itself
export function gpt1_head_input(x, parameters, config) {
  return x;
}

export const GPT1 = {
  kind: "openai-gpt",
  head: "tokens_embed", // the output matrix is the token embedding itself (equation 2)
  hidden: gpt1_hidden,
  hidden_backward: gpt1_hidden_backward,
  initial_weights: gpt1_initial_weights,
  smaller_projections: false,
  stream_names: gpt1_stream_names,
  head_input: gpt1_head_input,
};
