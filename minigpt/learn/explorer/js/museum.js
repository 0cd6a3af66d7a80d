// Planted mistakes: pieces of the museum (`minigpt learn bug`), under the names and titles that they have there.
//
// A piece replaces one function of the table, or two. The line that is wrong has a comment that says what stood there.
// One in the forward pass has isWrong(name): is this gradient wrong for the loss of that forward pass?

import { ASSIGNS_ROWS, BIAS_NOT_ADDED, MEAN_OF_THE_BIAS } from "./museum/linear_embedding.js";
import { GAIN_FORGOTTEN, GELU_WITHOUT_THE_CUBE, GELU_WITHOUT_THE_INNER_DERIVATIVE } from "./museum/gelu_layernorm.js";
import { SHIFT_DROPPED, STRETCH_DROPPED } from "./museum/gelu_layernorm.js";
import { NOT_CAUSAL, QUERY_AND_KEY_SWAPPED, ROW_SUM_DROPPED } from "./museum/softmax_attention.js";
import { SCALE_FORGOTTEN_IN_THE_BACKWARD, SCALE_FORGOTTEN_IN_THE_FORWARD } from "./museum/softmax_attention.js";
import { ONE_HOT_FORGOTTEN, SUM_FOR_MEAN } from "./museum/cross_entropy.js";
import { GELU_FORGOTTEN_IN_THE_MLP, HEADS_RESHAPED_ONLY, HEAD_SIGN } from "./museum/composites.js";
import { VALUES_FORGOTTEN } from "./museum/composites.js";
import { FIRST_RESIDUAL_FORGOTTEN, UNTIED_HEAD } from "./museum/models.js";

export const MUSEUM = [
  MEAN_OF_THE_BIAS,
  BIAS_NOT_ADDED,
  ASSIGNS_ROWS,
  GELU_WITHOUT_THE_INNER_DERIVATIVE,
  GELU_WITHOUT_THE_CUBE,
  GELU_FORGOTTEN_IN_THE_MLP,
  SHIFT_DROPPED,
  STRETCH_DROPPED,
  GAIN_FORGOTTEN,
  ROW_SUM_DROPPED,
  SCALE_FORGOTTEN_IN_THE_BACKWARD,
  SCALE_FORGOTTEN_IN_THE_FORWARD,
  NOT_CAUSAL,
  QUERY_AND_KEY_SWAPPED,
  HEADS_RESHAPED_ONLY,
  VALUES_FORGOTTEN,
  SUM_FOR_MEAN,
  ONE_HOT_FORGOTTEN,
  HEAD_SIGN,
  UNTIED_HEAD,
  FIRST_RESIDUAL_FORGOTTEN,
];
