// The sum of a residual connection (He et al. 2016, equation 1).

import { zeros } from "../tensor.js";

// x (*), y (*) -> x + y (*)
//
// Not a pair: there is nothing to keep, and the backward pass of a sum hands its gradient to both terms as it is. Where
// two gradients meet, they are added by this again.
export function add(x, y) {
  const out = zeros(x.shape);
  for (let i = 0; i < out.data.length; i++) {
    out.data[i] = x.data[i] + y.data[i];
  }
  return out;
}
