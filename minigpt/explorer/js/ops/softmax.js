// Softmax: scores become probabilities.

import { zeros } from "../tensor.js";

// x (*,N) -> p (*,N)
//
// p[i] = exp(x[i]) / sum_j exp(x[j]) over the last axis. Subtracting the largest x first changes nothing, for it
// cancels, and keeps exp from overflowing. A score of -Infinity has probability 0.
export function softmax_forward(x) {
  const N = x.shape[x.shape.length - 1];
  const p = zeros(x.shape);
  for (let start = 0; start < p.data.length; start += N) {
    let largest = -Infinity;
    for (let i = 0; i < N; i++) {
      largest = Math.max(largest, x.data[start + i]);
    }
    let sum = 0;
    for (let i = 0; i < N; i++) {
      const e = Math.exp(x.data[start + i] - largest);
      p.data[start + i] = e;
      sum += e;
    }
    for (let i = 0; i < N; i++) {
      p.data[start + i] /= sum;
    }
  }
  return [p, { p }];
}

// dp (*,N) -> dx (*,N)
//
// The derivative of p[i] with respect to x[j] is p[i] (1[i=j] - p[j]), so dx = p (dp - sum(p dp)): only the difference
// of dp from its average under p counts.
export function softmax_backward(dp, cache) {
  const { p } = cache;
  const N = p.shape[p.shape.length - 1];
  const dx = zeros(p.shape);
  for (let start = 0; start < p.data.length; start += N) {
    // p = softmax(x)
    let average = 0;
    for (let i = 0; i < N; i++) {
      average += p.data[start + i] * dp.data[start + i];
    }
    for (let i = 0; i < N; i++) {
      dx.data[start + i] = p.data[start + i] * (dp.data[start + i] - average);
    }
  }
  return dx;
}
