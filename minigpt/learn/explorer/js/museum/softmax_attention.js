// Planted mistakes in attention.

import { attention_backward, attention_forward, forEachHead } from "../ops/attention.js";
import { softmax_forward } from "../ops/softmax.js";
import { keepNothing } from "../ops/table.js";
import { product, productWithTransposed } from "../product.js";
import { scaled, zeros } from "../tensor.js";

export const ROW_SUM_DROPPED = {
  name: "RowSumDropped",
  op: "attention",
  where: "backward",
  title: {
    en: "the softmax's own sum over the row is left out",
    ko: "소프트맥스 자체의 행 방향 합이 빠졌습니다",
  },
  says: {
    en:
      "The gradient of the scores, attn.s, no longer sums to 0 in each row: as if one probability could grow and " +
      "the others stay.",
    ko: "점수 attn.s의 기울기가 행마다 합이 0이 되지 않습니다. 다른 확률은 그대로인 채 확률 하나만 커질 수 있다고 보는 셈입니다.",
  },
  replaces: {
    softmax_backward(dp, cache) {
      const { p } = cache;
      const dx = zeros(p.shape);
      for (let i = 0; i < dx.data.length; i++) {
        dx.data[i] = p.data[i] * dp.data[i]; // p * (dp - average)
      }
      return dx;
    },
  },
};

export const SCALE_FORGOTTEN_IN_THE_BACKWARD = {
  name: "ScaleForgottenInTheBackward",
  op: "attention",
  where: "backward",
  title: {
    en: "1/sqrt(D) is missing in the gradients of queries and keys",
    ko: "쿼리와 키의 기울기에 1/sqrt(D)가 빠졌습니다",
  },
  says: {
    en:
      "In attn.qkv of the last block the gradients of queries and keys are too large by sqrt(D), and those of the " +
      "values are right. Further down the errors add up.",
    ko:
      "마지막 블록의 attn.qkv에서 쿼리와 키의 기울기가 sqrt(D)배 크고 값의 기울기는 맞습니다. " +
      "그 아래로 내려가면 오차가 쌓입니다.",
  },
  replaces: {
    attention_backward(dout, cache, keepGradient) {
      const [dq, dk, dv] = attention_backward(dout, cache, keepGradient);
      const undo = 1 / cache.scale;
      return [scaled(dq, undo), scaled(dk, undo), dv]; // dq, dk
    },
  },
};

export const SCALE_FORGOTTEN_IN_THE_FORWARD = {
  name: "ScaleForgottenInTheForward",
  op: "attention",
  where: "forward",
  title: {
    en: "the scores are not scaled, and both passes agree on that",
    ko: "점수에 스케일을 적용하지 않는데, 순전파와 역전파가 모두 그렇습니다",
  },
  says: {
    en:
      "Attention becomes sharper and the loss changes. Every gradient is right, for this other model: a finite " +
      "difference finds nothing.",
    ko: "어텐션이 더 뾰족해지고 손실이 달라집니다. 기울기는 모두 이 다른 모델의 기울기로서 맞으므로, 유한 차분으로는 찾을 수 없습니다.",
  },
  isWrong: () => false,
  replaces: {
    attention_forward(q, k, v, keep) {
      const [, , D] = q.shape;
      const [out, cache] = attention_forward(scaled(q, Math.sqrt(D)), k, v, keep); // q: the two factors cancel
      return [out, { ...cache, q, scale: 1 }];
    },
  },
};

export const NOT_CAUSAL = {
  name: "NotCausal",
  op: "attention",
  where: "forward",
  title: {
    en: "where nothing is said, every position sees the future",
    ko: "따로 정하지 않으면 모든 위치가 미래를 봅니다",
  },
  says: {
    en:
      "Attention fills the upper triangle too. Each position sees the token that it has to predict. Every gradient " +
      "is right, for this other model.",
    ko: "어텐션이 위쪽 삼각형까지 채워집니다. 각 위치가 예측해야 할 토큰을 미리 봅니다. 기울기는 모두 이 다른 모델의 기울기로서 맞습니다.",
  },
  isWrong: () => false,
  replaces: {
    attention_forward(q, k, v, keep = keepNothing) {
      const [, , D] = q.shape;
      const scale = 1 / Math.sqrt(D);
      let s = forEachHead(productWithTransposed, q, k);
      s = scaled(s, scale);
      s = keep("s", s); // hideTheFuture(s)
      const [p, softmax] = softmax_forward(s);
      const a = keep("p", p);
      const out = forEachHead(product, a, v);
      return [out, { q, k, v, a, scale, softmax }];
    },
  },
};

export const QUERY_AND_KEY_SWAPPED = {
  name: "QueryAndKeySwapped",
  op: "attention",
  where: "backward",
  title: {
    en: "the gradients of queries and keys are exchanged",
    ko: "쿼리와 키의 기울기가 서로 바뀌었습니다",
  },
  says: {
    en:
      "In attn.qkv of the last block the first third has the gradient of the second, and the second that of the " +
      "first. Further down the errors add up. The shapes are equal, so that nothing is refused.",
    ko:
      "마지막 블록의 attn.qkv에서 첫째 3분의 1과 둘째 3분의 1의 기울기가 서로 바뀝니다. 그 아래로 내려가면 오차가 쌓입니다. " +
      "모양이 같아서 오류가 나지 않습니다.",
  },
  replaces: {
    attention_backward(dout, cache, keepGradient) {
      const [dq, dk, dv] = attention_backward(dout, cache, keepGradient);
      return [dk, dq, dv]; // [dq, dk, dv]
    },
  },
};
