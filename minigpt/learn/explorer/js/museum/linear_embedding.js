// Planted mistakes in the linear layer and in the embedding.

import { linear_backward, linear_forward } from "../ops/linear.js";
import { scaled, zeros } from "../tensor.js";

export const MEAN_OF_THE_BIAS = {
  name: "MeanOfTheBias",
  op: "linear",
  where: "backward",
  title: {
    en: "the gradient of b is a mean over the rows, where it must be their sum",
    ko: "b의 기울기가 행 방향의 합이어야 하는데 평균입니다",
  },
  says: {
    en: "Every linear bias has a gradient too small by a factor: the number of tokens. The rest is right.",
    ko: "모든 선형층 편향의 기울기가 토큰 수로 나눈 만큼 작아집니다. 나머지는 모두 맞습니다.",
  },
  replaces: {
    linear_backward(dout, cache) {
      const [dx, dw, db] = linear_backward(dout, cache);
      const [T] = dout.shape;
      return [dx, dw, db === null ? null : scaled(db, 1 / T)]; // db
    },
  },
};

export const BIAS_NOT_ADDED = {
  name: "BiasNotAdded",
  op: "linear",
  where: "forward",
  title: {
    en: "the forward pass leaves the bias out",
    ko: "순전파에서 편향을 빠뜨립니다",
  },
  says: {
    en:
      "The loss changes, unless every bias of a linear layer is 0, as in a new model. These biases have no effect " +
      "any more, so that their true gradient is 0; the backward pass says otherwise.",
    ko:
      "손실이 달라집니다. 다만 새 모델에서는 선형층의 모든 편향이 0이라 그대로입니다. " +
      "선형층의 편향은 아무 영향도 주지 않아 실제 기울기가 0인데, 역전파는 0이 아니라고 합니다.",
  },
  isWrong: (name) => /\.(c_attn|c_proj|c_fc)\.bias$/.test(name),
  replaces: {
    linear_forward(x, w, b = null) {
      const [out] = linear_forward(x, w, null); // b
      return [out, { x, w, b }];
    },
  },
};

export const ASSIGNS_ROWS = {
  name: "AssignsRows",
  op: "embedding",
  where: "backward",
  title: {
    en: "rows are assigned: of an id that comes twice only the last one counts",
    ko: "행을 대입하므로, 두 번 나오는 번호는 마지막 것만 반영됩니다",
  },
  says: {
    en: "Only tokens that stand in the text more than once get a wrong gradient in the token embedding.",
    ko: "글에 두 번 이상 나오는 토큰만 토큰 임베딩에서 잘못된 기울기를 받습니다.",
  },
  replaces: {
    embedding_backward(dout, cache) {
      const { w, ids } = cache;
      const dw = zeros(w.shape);
      for (let t = 0; t < ids.length; t++) {
        dw.row(ids[t]).set(dout.row(t)); // each row is added
      }
      return dw;
    },
  },
};
