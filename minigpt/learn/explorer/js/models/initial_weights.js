// The parameters of a new model. weights: Map(name -> Tensor), to which they are added in the order of the package.

import { scaled, zeros } from "../tensor.js";

// random: a generator with normal(); std: standard deviation of the matrix. The bias is 0.
export function linearParameters(weights, name, n_in, n_out, std, random) {
  weights.set(`${name}.weight`, normalTensor([n_in, n_out], std, random));
  weights.set(`${name}.bias`, zeros([n_out]));
}

export function embeddingParameters(weights, name, n_rows, n_embd, std, random) {
  weights.set(`${name}.weight`, normalTensor([n_rows, n_embd], std, random));
}

export function layerNormParameters(weights, name, n_embd) {
  const ones = zeros([n_embd]);
  ones.data.fill(1);
  weights.set(`${name}.weight`, ones);
  weights.set(`${name}.bias`, zeros([n_embd]));
}

// The matrices that end on the residual stream, those of attention and of the MLP, times a factor.
export function scaleProjections(weights, factor) {
  for (const [name, weight] of weights) {
    if (name.endsWith(".c_proj.weight")) {
      weights.set(name, scaled(weight, factor));
    }
  }
}

export function normalTensor(shape, std, random) {
  const tensor = zeros(shape);
  for (let i = 0; i < tensor.data.length; i++) {
    tensor.data[i] = std * random.normal();
  }
  return tensor;
}
