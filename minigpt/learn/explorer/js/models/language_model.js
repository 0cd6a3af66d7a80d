// What GPT-1 and GPT-2 have in common: the tied head, the loss, and both passes through the whole model.

import { linear_forward } from "../ops/linear.js";
import { softmax_forward } from "../ops/softmax.js";
import { ops } from "../ops/table.js";
import { transposed } from "../tensor.js";
import { GPT1 } from "./gpt1.js";
import { GPT2 } from "./gpt2.js";

// The functions of a model, by the model_type of its config.json.
export const ARCHITECTURES = { [GPT1.kind]: GPT1, [GPT2.kind]: GPT2 };

// ids: T numbers, targets: T numbers -> loss, a number, in nats per token (GPT-1 equation 1, averaged)
//
// model: the whole of a recording, which has the values afterwards.
export function loss_forward(ids, targets, model, architecture, config) {
  const h = architecture.hidden(ids, model, config);
  const w = model.part(architecture.head).parameter("weight");
  const [loss, cache] = ops.linear_cross_entropy_forward(h, w, targets, model.keep);
  model.keepCache(cache);
  return loss;
}

// The gradient of the loss arrives in the recording: of every value, and of every parameter.
export function loss_backward(model, architecture, config) {
  const dloss = 1;
  const [dh, dw] = ops.linear_cross_entropy_backward(dloss, model.cache, model.keepGradient);
  model.part(architecture.head).accumulate("weight", dw);
  architecture.hidden_backward(dh, model, config);
}

// x (T,C), of the residual stream -> p (T,V): what the head says of the next token, read at this place
export function probabilities_of_stream(x, parameters, architecture, config) {
  const h = architecture.head_input(x, parameters, config);
  const w = parameters.get(`${architecture.head}.weight`);
  const [logits] = linear_forward(h, transposed(w));
  const [p] = softmax_forward(logits);
  return p;
}
