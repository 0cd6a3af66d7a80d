// GPT-1 (Radford, Narasimhan, Salimans and Sutskever 2018): a decoder whose blocks normalise after each addition.

import { ops } from "../ops/table.js";
import { attentionLayer_backward, attentionLayer_forward } from "./layers.js";
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

export const GPT1 = {
  kind: "openai-gpt",
  block: "gpt1Block", // its two passes, in the table
  layers: ["attn.c_attn", "attn.c_proj", "ln_1", "mlp.c_fc", "mlp.c_proj", "ln_2"], // of a block
  output: "ln_2", // of a block: what goes on to the next one
  tokens: "tokens_embed", // this embedding is the output matrix too (equation 2)
  positions: "positions_embed",
  last_norm: null, // the head reads the stream itself
  smaller_projections: false,
};
