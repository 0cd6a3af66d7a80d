// Planted mistakes in the loss.

import { cross_entropy_backward } from "../ops/cross_entropy.js";
import { zeros } from "../tensor.js";

export const SUM_FOR_MEAN = {
  name: "SumForMean",
  op: "cross_entropy",
  where: "backward",
  title: {
    en: "the gradient is that of the sum of the losses, the loss is their mean",
    ko: "손실은 평균인데 기울기는 손실을 모두 더한 것의 기울기입니다",
  },
  says: {
    en: "Every gradient is too large, by the number of targets: a constant factor. With one target nothing is wrong.",
    ko: "모든 기울기가 정답의 개수만큼 큽니다. 배수는 어디서나 같습니다. 정답이 하나뿐이면 틀린 것이 없습니다.",
  },
  replaces: {
    cross_entropy_backward(dloss, cache) {
      const counted = cache.share.filter((share) => share > 0).length;
      return cross_entropy_backward(dloss * counted, cache); // dloss
    },
  },
};

export const ONE_HOT_FORGOTTEN = {
  name: "OneHotForgotten",
  op: "cross_entropy",
  where: "backward",
  title: {
    en: "the right answer is never pushed up",
    ko: "정답을 전혀 밀어 올리지 않습니다",
  },
  says: {
    en:
      "The gradient of the logits is the probability itself: every row sums to its share of the loss, where it must " +
      "sum to 0.",
    ko: "로짓의 기울기가 확률 그 자체입니다. 행마다 합이 0이어야 하는데 손실에서 그 행의 몫이 됩니다.",
  },
  replaces: {
    cross_entropy_backward(dloss, cache) {
      const { p, share } = cache;
      const [T, V] = p.shape;
      const dlogits = zeros(p.shape);
      for (let t = 0; t < T; t++) {
        for (let v = 0; v < V; v++) {
          dlogits.data[t * V + v] = p.data[t * V + v] * share[t] * dloss; // p - onehot
        }
      }
      return dlogits;
    },
  },
};
