// What the page may ask of the engine: open models, run a pass, check a gradient. Everything else stands below it.
//
// What a page holds was checked when it was written: models, tokenizers and mistakes are those that are known here.

import { centralDifference, relativeError, roundingNoise } from "./differences.js";
import { initial_weights } from "./models/initial_weights.js";
import { ARCHITECTURES, loss_backward, loss_forward } from "./models/language_model.js";
import { probabilities_of_stream, stream_names } from "./models/language_model.js";
import { Recording } from "./models/record.js";
import { MUSEUM, WRONG_FOR_ITS_LOSS } from "./museum.js";
import { OPERATIONS } from "./operations.js";
import { IGNORED } from "./ops/cross_entropy.js";
import { softmax_forward } from "./ops/softmax.js";
import { putInTable } from "./ops/table.js";
import { Random } from "./random.js";
import { openTokenizer } from "./tokenizer.js";
import { readWeights } from "./weights.js";

export class Model {
  // config: as of config.json; parameters: Map(name -> Tensor); tokenizer: null for a model without one
  constructor(name, title, config, parameters, tokenizer) {
    this.name = name;
    this.title = title;
    this.config = { layer_norm_epsilon: 1e-5, initializer_range: 0.02, ...config };
    this.kind = config.model_type;
    this.parameters = parameters;
    this.tokenizer = tokenizer;
  }

  get architecture() {
    return ARCHITECTURES[this.kind];
  }
}

// json: the content of the page's "models" script -> [Model], which have what their entry there says of the stream too
// model.tokenizer: see `openTokenizer`
export async function openModels(json) {
  const tokenizers = json.tokenizers.map(openTokenizer);
  const models = [];
  for (const one of json.models) {
    const parameters = await readWeights(one);
    const model = new Model(one.name, one.title, one.config, parameters, tokenizers[one.tokenizer] ?? null);
    const { pre_norm, stream, walk } = one;
    models.push(Object.assign(model, { pre_norm, stream, walk }));
  }
  return models;
}

// A model with new weights, as the paper draws them, and without a tokenizer. kind: "openai-gpt" | "gpt2"; config: as
// of config.json
// projections: the weights that end on the stream; "paper": GPT-2 draws them smaller, by 1/sqrt(2 n_layer), and GPT-1
// does not; "smaller": in both; "equal": in none
export function freshModel(kind, config, seed, projections = "paper") {
  const model = new Model(kind, { en: kind, ko: kind }, { ...config, model_type: kind }, null, null);
  const { architecture } = model;
  const smaller = { paper: architecture.smaller_projections, smaller: true, equal: false }[projections];
  model.parameters = initial_weights(architecture, model.config, new Random(seed), smaller);
  return model;
}

// ids: T numbers; targets: T numbers, -100 for "no loss here", or null for a pass without a loss
// -> Pass { loss, logits: Tensor (T,V), values: Map(name -> { value: Tensor, gradient: Tensor|null, kind }), ms }
// kind: "activation" | "parameter"; ms: { forward, backward }; mistake: a name of `mistakes`, or null
// nudge: { name, index, by } or null: adds `by` to one number of a value or of a parameter
export function runPass(model, ids, { targets = null, backward = true, mistake = null, nudge = null } = {}) {
  ids = Array.from(ids);
  putInTable(OPERATIONS);
  putInTable(mistake === null ? {} : MUSEUM[mistake]);
  const { architecture, config } = model;
  const recording = new Recording(model.parameters, nudge);
  const whole = recording.part("");

  const started = performance.now();
  const counted = Array.from(targets ?? ids.map(() => IGNORED));
  const loss = loss_forward(ids, counted, whole, architecture, config);
  const between = performance.now();
  if (backward && targets !== null) {
    loss_backward(whole, architecture, config);
  }
  const ended = performance.now();

  return {
    loss: targets === null ? null : loss,
    logits: recording.values.get("logits").value,
    values: recording.all(),
    ms: { forward: between - started, backward: ended - between },
  };
}

// The names of the residual stream: "x" after the embedding, and one more after each block.
export function streamNames(model) {
  return stream_names(model.architecture, model.config);
}

// -> [Tensor (T,V)], one for each name of the stream: the probabilities that the head would give there
export function lens(model, pass) {
  const parameters = new Map([...model.parameters.keys()].map((name) => [name, pass.values.get(name).value]));
  return streamNames(model).map((name) => {
    const x = pass.values.get(name).value;
    return probabilities_of_stream(x, parameters, model.architecture, model.config);
  });
}

// logits (T,V) -> probabilities (T,V)
export function probabilities(logits) {
  const [p] = softmax_forward(logits);
  return p;
}

// The slope of the loss by two forward passes, beside the gradient of the backward pass
// -> { plus, minus, numeric, analytic, relative, noise }
//
// relative: their difference divided by the larger of both (see relativeError); noise: how far rounding may put it off
export function finiteDifference(model, ids, targets, name, index, { eps = 1e-5, mistake = null } = {}) {
  const pass = runPass(model, ids, { targets, mistake });
  const analytic = pass.values.get(name).gradient.data[index];
  const lossAt = (by) => runPass(model, ids, { targets, backward: false, mistake, nudge: { name, index, by } }).loss;
  const { plus, minus, numeric } = centralDifference(lossAt, eps);
  const noise = roundingNoise(pass.loss, eps);
  const relative = relativeError(numeric, analytic, noise);
  return { plus, minus, numeric, analytic, relative, noise };
}

// [{ name, where: "backward" | "forward", isWrong }]
//
// isWrong(name): is a gradient of this value that differs from the right one wrong? After a mistake in the forward pass
// it may be right for the loss of that pass.
export const mistakes = Object.keys(MUSEUM).map((name) => {
  const isForward = Object.keys(MUSEUM[name]).some((replaced) => replaced.endsWith("_forward"));
  const isWrong = (value) => !isForward || (WRONG_FOR_ITS_LOSS[name]?.test(value) ?? false);
  return { name, where: isForward ? "forward" : "backward", isWrong };
});
