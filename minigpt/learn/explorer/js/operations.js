// All operations, and the blocks: what the table holds when nothing is wrong.
//
// A function that has a twin in the package keeps its name, as split_heads; all others are named in camelCase.

import { attention_backward, attention_forward } from "./ops/attention.js";
import { linear_cross_entropy_backward, linear_cross_entropy_forward } from "./ops/composites.js";
import { mlp_backward, mlp_forward } from "./ops/composites.js";
import { self_attention_backward, self_attention_forward } from "./ops/composites.js";
import { cross_entropy_backward, cross_entropy_forward } from "./ops/cross_entropy.js";
import { embedding_backward, embedding_forward } from "./ops/embedding.js";
import { gelu_backward, gelu_forward } from "./ops/gelu.js";
import { layernorm_backward, layernorm_forward } from "./ops/layernorm.js";
import { linear_backward, linear_forward } from "./ops/linear.js";
import { add } from "./ops/residual.js";
import { softmax_backward, softmax_forward } from "./ops/softmax.js";
import { gpt1Block_backward, gpt1Block_forward } from "./models/gpt1.js";
import { gpt2Block_backward, gpt2Block_forward } from "./models/gpt2.js";

export const OPERATIONS = {
  linear_forward,
  linear_backward,
  embedding_forward,
  embedding_backward,
  layernorm_forward,
  layernorm_backward,
  gelu_forward,
  gelu_backward,
  softmax_forward,
  softmax_backward,
  attention_forward,
  attention_backward,
  cross_entropy_forward,
  cross_entropy_backward,
  add,
  mlp_forward,
  mlp_backward,
  self_attention_forward,
  self_attention_backward,
  linear_cross_entropy_forward,
  linear_cross_entropy_backward,
  gpt1Block_forward,
  gpt1Block_backward,
  gpt2Block_forward,
  gpt2Block_backward,
};
