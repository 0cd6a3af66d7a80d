// The parameters of a new model. weights: Map(name -> Tensor), to which they are added in the order of the package.

import { zeros } from "../tensor.js";

// New weights, N(0, 0.02) (GPT-1 section 4.1) -> Map(name -> Tensor)
//
// smaller: are the matrices that end on the residual stream drawn smaller, by 1/sqrt(2 n_layer) (GPT-2 section 2.3)?
export function initial_weights(architecture, config, random, smaller) {
  const C = config.n_embd;
  const std = config.initializer_range;
  const proj_std = smaller ? std / Math.sqrt(2 * config.n_layer) : std;
  const matrices = {
    "attn.c_attn": [C, 3 * C, std],
    "attn.c_proj": [C, C, proj_std],
    "mlp.c_fc": [C, 4 * C, std],
    "mlp.c_proj": [4 * C, C, proj_std],
  };
  const weights = new Map();
  embeddingParameters(weights, architecture.tokens, config.vocab_size, C, std, random);
  embeddingParameters(weights, architecture.positions, config.n_positions, C, std, random);
  for (let i = 0; i < config.n_layer; i++) {
    for (const layer of architecture.layers) {
      if (layer in matrices) linearParameters(weights, `h.${i}.${layer}`, ...matrices[layer], random);
      else layerNormParameters(weights, `h.${i}.${layer}`, C);
    }
  }
  if (architecture.last_norm !== null) layerNormParameters(weights, architecture.last_norm, C);
  return weights;
}

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

export function normalTensor(shape, std, random) {
  const tensor = zeros(shape);
  for (let i = 0; i < tensor.data.length; i++) {
    tensor.data[i] = std * random.normal();
  }
  return tensor;
}
