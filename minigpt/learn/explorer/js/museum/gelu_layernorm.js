// Planted mistakes in GELU and in layer normalisation.

import { GELU_A, GELU_C } from "../ops/gelu.js";
import { layernorm_backward } from "../ops/layernorm.js";
import { zeros } from "../tensor.js";

export const GELU_WITHOUT_THE_INNER_DERIVATIVE = {
  name: "GeluWithoutTheInnerDerivative",
  op: "gelu",
  where: "backward",
  title: {
    en: "the derivative stops at tanh(u): du/dx is left out",
    ko: "미분이 tanh(u)에서 멈추고 du/dx가 빠졌습니다",
  },
  says: {
    en: "The gradient is wrong from the GELU of the last block on, and in everything before it.",
    ko: "마지막 블록의 GELU에서부터, 그 앞의 모든 곳에서 기울기가 틀립니다.",
  },
  replaces: {
    gelu_backward(dout, cache) {
      const { x, t } = cache;
      const dx = zeros(dout.shape);
      for (let i = 0; i < dx.data.length; i++) {
        const t_i = t.data[i];
        const dt_dx = 1 - t_i * t_i; // (1 - t_i * t_i) * du_dx
        dx.data[i] = dout.data[i] * (0.5 * (1 + t_i) + 0.5 * x.data[i] * dt_dx);
      }
      return dx;
    },
  },
};

export const GELU_WITHOUT_THE_CUBE = {
  name: "GeluWithoutTheCube",
  op: "gelu",
  where: "backward",
  title: {
    en: "the 3 that comes from x^3 is left out of du/dx",
    ko: "du/dx에서 x^3의 미분으로 나오는 3이 빠졌습니다",
  },
  says: {
    en: "The error is small, and the gradient still points nearly the same way. A finite difference finds it.",
    ko: "오차가 작고 기울기의 방향도 거의 그대로입니다. 그래도 유한 차분으로 찾을 수 있습니다.",
  },
  replaces: {
    gelu_backward(dout, cache) {
      const { x, t } = cache;
      const dx = zeros(dout.shape);
      for (let i = 0; i < dx.data.length; i++) {
        const x_i = x.data[i];
        const t_i = t.data[i];
        const du_dx = GELU_C * (1 + GELU_A * x_i * x_i); // 3 * GELU_A
        const dt_dx = (1 - t_i * t_i) * du_dx;
        dx.data[i] = dout.data[i] * (0.5 * (1 + t_i) + 0.5 * x_i * dt_dx);
      }
      return dx;
    },
  },
};

export const SHIFT_DROPPED = {
  name: "ShiftDropped",
  op: "layernorm",
  where: "backward",
  title: {
    en: "dx without the term of the mean",
    ko: "dx에 평균의 항이 없습니다",
  },
  says: {
    en:
      "A LayerNorm takes the mean out of its input, so that each row of the gradient of this input must sum to 0. At " +
      "the LayerNorm that the gradient meets first, each row is off by one number, the same for the whole row. " +
      "Further down the errors add up.",
    ko:
      "LayerNorm은 입력에서 평균을 빼므로, 그 입력에 대한 기울기는 행마다 합이 0이어야 합니다. " +
      "기울기가 처음 만나는 LayerNorm에서는 각 행이 행 전체에서 같은 수 하나만큼 어긋납니다. 그 아래로 내려가면 오차가 쌓입니다.",
  },
  replaces: {
    layernorm_backward(dout, cache) {
      const [, dg, db] = layernorm_backward(dout, cache);
      const dx = layernormInput_backward(dout, cache, { withShift: false, withStretch: true });
      return [dx, dg, db];
    },
  },
};

export const STRETCH_DROPPED = {
  name: "StretchDropped",
  op: "layernorm",
  where: "backward",
  title: {
    en: "dx without the term of the variance",
    ko: "dx에 분산의 항이 없습니다",
  },
  says: {
    en:
      "At the LayerNorm that the gradient meets first, each row of the gradient of its input is off by a multiple of " +
      "x_hat, the normalised input: as if a longer row in gave a longer row out. Further down the errors add up.",
    ko:
      "기울기가 처음 만나는 LayerNorm에서는 입력에 대한 기울기의 각 행이 정규화한 입력 x_hat의 배수만큼 어긋납니다. " +
      "입력의 행이 길어지면 출력의 행도 길어진다고 보는 셈입니다. 그 아래로 내려가면 오차가 쌓입니다.",
  },
  replaces: {
    layernorm_backward(dout, cache) {
      const [, dg, db] = layernorm_backward(dout, cache);
      const dx = layernormInput_backward(dout, cache, { withShift: true, withStretch: false });
      return [dx, dg, db];
    },
  },
};

export const GAIN_FORGOTTEN = {
  name: "GainForgotten",
  op: "layernorm",
  where: "backward",
  title: {
    en: "dx for a gain of 1, whatever g is",
    ko: "g가 무엇이든 게인이 1일 때의 dx입니다",
  },
  says: {
    en: "In a new model every gain is 1, and nothing is wrong. In a trained model everything before a LayerNorm is.",
    ko: "새 모델에서는 모든 게인이 1이라 틀린 것이 없습니다. 학습한 모델에서는 LayerNorm 앞의 모든 기울기가 틀립니다.",
  },
  replaces: {
    layernorm_backward(dout, cache) {
      const { x_hat, rstd, g } = cache;
      const [, dg, db] = layernorm_backward(dout, cache);
      const ones = zeros(g.shape);
      ones.data.fill(1);
      const [dx] = layernorm_backward(dout, { x_hat, rstd, g: ones }); // g
      return [dx, dg, db];
    },
  },
};

// dx of a LayerNorm, with or without the two terms that come from the mean and from the variance.
export function layernormInput_backward(dout, cache, { withShift, withStretch }) {
  const { x_hat, rstd, g } = cache;
  const [T, C] = dout.shape;
  const dx = zeros(dout.shape);
  for (let t = 0; t < T; t++) {
    const start = t * C;
    let shift = 0;
    let stretch = 0;
    for (let c = 0; c < C; c++) {
      const dx_hat = dout.data[start + c] * g.data[c];
      shift += withShift ? dx_hat / C : 0;
      stretch += withStretch ? (dx_hat * x_hat.data[start + c]) / C : 0;
    }
    for (let c = 0; c < C; c++) {
      const dx_hat = dout.data[start + c] * g.data[c];
      dx.data[start + c] = rstd.data[t] * (dx_hat - shift - x_hat.data[start + c] * stretch);
    }
  }
  return dx;
}
