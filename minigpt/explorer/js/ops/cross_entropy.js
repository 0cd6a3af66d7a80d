// Cross-entropy of the next token (GPT-1 equation 1).

import { zeros } from "../tensor.js";

export const IGNORED = -100;

// logits (T,V), targets: T numbers -> loss, a number
//
// loss = sum_t share[t] (lse[t] - logits[t, targets[t]]),   lse = log sum_v exp(logits[v]), in nats. share: one divided
// by the number of targets that count; 0 for a target of -100. Where none counts the loss is 0.
export function cross_entropy_forward(logits, targets) {
  const [T, V] = logits.shape;
  const p = zeros(logits.shape);
  const share = row_shares(targets);
  let loss = 0;
  for (let t = 0; t < T; t++) {
    const start = t * V;
    let largest = -Infinity;
    for (let v = 0; v < V; v++) {
      largest = Math.max(largest, logits.data[start + v]);
    }
    let total = 0;
    for (let v = 0; v < V; v++) {
      const e = Math.exp(logits.data[start + v] - largest);
      p.data[start + v] = e;
      total += e;
    }
    for (let v = 0; v < V; v++) {
      p.data[start + v] /= total;
    }
    if (targets[t] !== IGNORED) {
      const lse = Math.log(total);
      const z = logits.data[start + targets[t]] - largest;
      loss += share[t] * (lse - z);
    }
  }
  return [loss, { p, targets, share }];
}

// dloss, a number -> dlogits (T,V)
//
// dlogits = (p - onehot(target)) share: every wrong answer is pushed down by its probability, the right one up.
export function cross_entropy_backward(dloss, cache) {
  const { p, targets, share } = cache;
  const [T, V] = p.shape;
  const dlogits = zeros(p.shape);
  for (let t = 0; t < T; t++) {
    // loss += share[t] * (lse - z)
    const dlse = share[t] * dloss;
    const dz = -dlse;
    for (let v = 0; v < V; v++) {
      // lse = Math.log(total), of which the derivative with respect to logit v is p
      let dlogit = p.data[t * V + v] * dlse;
      // z = logits.data[start + targets[t]] - largest; what `largest` is moved by, lse and z are both moved by
      if (v === targets[t]) {
        dlogit += dz;
      }
      dlogits.data[t * V + v] = dlogit;
    }
  }
  return dlogits;
}

// The factor of each row in the loss.
export function row_shares(targets) {
  const counted = targets.filter((target) => target !== IGNORED).length;
  return Float64Array.from(targets, (target) => (target === IGNORED ? 0 : 1 / counted));
}
