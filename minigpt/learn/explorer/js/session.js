// What the page may ask of the engine: open models, run a pass, check a gradient. Everything else stands below it.

import { Tensor } from "./tensor.js";

// json: the content of the page's "models" script -> [Model]
// Model: { name, title: {en, ko}, config, kind: "openai-gpt" | "gpt2", parameters: Map(name -> Tensor), tokenizer }
// model.tokenizer: { encode(text) -> { ids: [number], unknown: [string] }, decode(ids) -> string, show(id) -> string }
export async function openModels(json) {
  throw new Error("not built yet");
}

// A model with new weights, as the paper draws them. kind: "openai-gpt" | "gpt2"; config: as of config.json; no tokenizer
export function freshModel(kind, config, seed) {
  throw new Error("not built yet");
}

// ids: T numbers; targets: T numbers, -100 for "no loss here", or null for a pass without a loss
// -> Pass { loss, logits: Tensor (T,V), values: Map(name -> { value: Tensor, gradient: Tensor|null, kind }), ms }
// kind: "activation" | "parameter"; ms: { forward, backward }; mistake: a name of `mistakes`, or null
// nudge: { name, index, by } or null: adds `by` to one number of a value or of a parameter
export function runPass(model, ids, { targets = null, backward = true, mistake = null, nudge = null } = {}) {
  throw new Error("not built yet");
}

// The names of the residual stream: "x" after the embedding, and one more after each block.
export function streamNames(model) {
  throw new Error("not built yet");
}

// -> [Tensor (T,V)], one for each name of the stream: the probabilities that the head would give there
export function lens(model, pass) {
  throw new Error("not built yet");
}

// logits (T,V) -> probabilities (T,V)
export function probabilities(logits) {
  throw new Error("not built yet");
}

// The slope of the loss by two forward passes, beside the gradient of the backward pass
// -> { plus, minus, numeric, analytic, relative }
export function finiteDifference(model, ids, targets, name, index, { eps = 1e-5, mistake = null } = {}) {
  throw new Error("not built yet");
}

// [{ name, title: {en, ko}, says: {en, ko}, where: "backward" | "forward" }]
export const mistakes = [];
