// GPT-2 (Radford, Wu, Child, Luan, Amodei and Sutskever 2019): a decoder whose blocks normalise before they compute.

import { ops } from "../ops/table.js";
import { attentionLayer_backward, attentionLayer_forward } from "./layers.js";
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

export const GPT2 = {
  kind: "gpt2",
  block: "gpt2Block", // its two passes, in the table
  layers: ["ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj"], // of a block
  output: "x", // of a block: what goes on to the next one
  tokens: "wte", // this embedding is the output matrix too
  positions: "wpe",
  last_norm: "ln_f", // between the stream and the head
  smaller_projections: true, // at first, by 1/sqrt(2 n_layer) (section 2.3)
};
