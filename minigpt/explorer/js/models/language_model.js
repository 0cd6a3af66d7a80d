// What GPT-1 and GPT-2 have in common: embedding, the blocks one after the other, the tied head, the loss.

import { layernorm_forward } from "../ops/layernorm.js";
import { linear_forward } from "../ops/linear.js";
import { softmax_forward } from "../ops/softmax.js";
import { ops } from "../ops/table.js";
import { transposed } from "../tensor.js";
import { GPT1 } from "./gpt1.js";
import { GPT2 } from "./gpt2.js";
import { embeddingLayer_backward, embeddingLayer_forward } from "./layers.js";
import { layerNorm_backward, layerNorm_forward } from "./layers.js";

// What a model has of its own, by the model_type of its config.json.
export const ARCHITECTURES = { [GPT1.kind]: GPT1, [GPT2.kind]: GPT2 };

// ids: T numbers -> h (T,C), what the head reads
export function hidden_forward(ids, model, architecture, config) {
  const positions = ids.map((_, t) => t);
  const tokens = model.keep("tokens", embeddingLayer_forward(ids, model.part(architecture.tokens)));
  const places = model.keep("positions", embeddingLayer_forward(positions, model.part(architecture.positions)));
  let x = model.keep("x", ops.add(tokens, places));
  for (let i = 0; i < config.n_layer; i++) {
    x = ops[`${architecture.block}_forward`](x, model.part(`h.${i}`), config);
  }
  if (architecture.last_norm !== null) {
    x = layerNorm_forward(x, model.part(architecture.last_norm), config.layer_norm_epsilon);
  }
  return x;
}

// dh (T,C) -> nothing: the gradients arrive in the parameters
export function hidden_backward(dh, model, architecture, config) {
  if (architecture.last_norm !== null) {
    dh = layerNorm_backward(dh, model.part(architecture.last_norm));
  }
  for (let i = config.n_layer - 1; i >= 0; i--) {
    dh = ops[`${architecture.block}_backward`](dh, model.part(`h.${i}`));
  }
  for (const name of ["x", "positions", "tokens"]) {
    model.keepGradient(name, dh);
  }
  embeddingLayer_backward(dh, model.part(architecture.positions));
  embeddingLayer_backward(dh, model.part(architecture.tokens));
}

// ids: T numbers, targets: T numbers -> loss, a number, in nats per token (GPT-1 equation 1, averaged)
//
// model: the whole of a recording, which has the values afterwards.
export function loss_forward(ids, targets, model, architecture, config) {
  const h = hidden_forward(ids, model, architecture, config);
  const w = model.part(architecture.tokens).parameter("weight");
  const [loss, cache] = ops.linear_cross_entropy_forward(h, w, targets, model.keep);
  model.keepCache(cache);
  return loss;
}

// The gradient of the loss arrives in the recording: of every value, and of every parameter.
export function loss_backward(model, architecture, config) {
  const dloss = 1;
  const [dh, dw] = ops.linear_cross_entropy_backward(dloss, model.cache, model.keepGradient);
  model.part(architecture.tokens).accumulate("weight", dw);
  hidden_backward(dh, model, architecture, config);
}

// The names of the residual stream: "x" after the embedding, and one more after each block.
export function stream_names(architecture, config) {
  const names = ["x"];
  for (let i = 0; i < config.n_layer; i++) {
    names.push(`h.${i}.${architecture.output}`);
  }
  return names;
}

// x (T,C), of the residual stream -> p (T,V): what the head says of the next token, read at this place
export function probabilities_of_stream(x, parameters, architecture, config) {
  let h = x;
  if (architecture.last_norm !== null) {
    const g = parameters.get(`${architecture.last_norm}.weight`);
    const b = parameters.get(`${architecture.last_norm}.bias`);
    [h] = layernorm_forward(x, g, b, config.layer_norm_epsilon);
  }
  const w = parameters.get(`${architecture.tokens}.weight`);
  const [logits] = linear_forward(h, transposed(w));
  const [p] = softmax_forward(logits);
  return p;
}
