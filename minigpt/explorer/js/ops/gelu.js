// GELU, in the tanh form of the released models (Hendrycks and Gimpel 2016, section 2).

import { zeros } from "../tensor.js";

export const GELU_C = Math.sqrt(2 / Math.PI);
export const GELU_A = 0.044715;

// x (*) -> out (*)
//
// out = x (1 + t) / 2,   t = tanh(u),   u = sqrt(2/pi) (x + 0.044715 x^3): x times a smooth switch between 0 and 1.
export function gelu_forward(x) {
  const out = zeros(x.shape);
  const t = zeros(x.shape);
  for (let i = 0; i < out.data.length; i++) {
    const x_i = x.data[i];
    const u = GELU_C * (x_i + GELU_A * x_i * x_i * x_i);
    t.data[i] = Math.tanh(u);
    out.data[i] = 0.5 * x_i * (1 + t.data[i]);
  }
  return [out, { x, t }];
}

// dout (*) -> dx (*)
//
// dx = dout ((1 + t) / 2 + x/2 (1 - t^2) du/dx): out depends on x as a factor, and through the switch.
export function gelu_backward(dout, cache) {
  const { x, t } = cache;
  const dx = zeros(dout.shape);
  for (let i = 0; i < dx.data.length; i++) {
    const x_i = x.data[i];
    const t_i = t.data[i];
    // u = C * (x + A * x**3)
    const du_dx = GELU_C * (1 + 3 * GELU_A * x_i * x_i);
    // t = tanh(u)
    const dt_dx = (1 - t_i * t_i) * du_dx;
    // out = 0.5 * x * (1 + t)
    dx.data[i] = dout.data[i] * (0.5 * (1 + t_i) + 0.5 * x_i * dt_dx);
  }
  return dx;
}
