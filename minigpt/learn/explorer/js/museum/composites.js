// Planted mistakes in the MLP, in self-attention and in the head.

import { linear_cross_entropy_backward, merge_heads, sideBySide, split_heads } from "../ops/composites.js";
import { keepNothing, ops } from "../ops/table.js";
import { scaled, zeros } from "../tensor.js";

export const GELU_FORGOTTEN_IN_THE_MLP = {
  name: "GeluForgottenInTheMlp",
  op: "mlp",
  where: "backward",
  title: {
    en: "the backward pass walks past the GELU",
    ko: "역전파가 GELU를 거치지 않고 지나갑니다",
  },
  says: {
    en: "mlp.f and mlp.a have the same gradient. It must be smaller where the GELU is flat.",
    ko: "mlp.f와 mlp.a의 기울기가 같습니다. GELU가 평평한 곳에서는 더 작아야 합니다.",
  },
  replaces: {
    mlp_backward(dout, cache, keepGradient = keepNothing) {
      const [da, dw2, db2] = ops.linear_backward(dout, cache.proj);
      keepGradient("a", da);
      const df = da; // ops.gelu_backward(da, cache.gelu)
      keepGradient("f", df);
      const [dx, dw1, db1] = ops.linear_backward(df, cache.fc);
      return [dx, dw1, db1, dw2, db2];
    },
  },
};

export const HEADS_RESHAPED_ONLY = {
  name: "HeadsReshapedOnly",
  op: "self_attention",
  where: "backward",
  title: {
    en: "the heads are put together without moving their axis back",
    ko: "축을 제자리로 옮기지 않고 헤드들을 합칩니다",
  },
  says: {
    en:
      "In the last block all numbers of the gradient of attn.qkv are there, at wrong places: the first tokens get " +
      "what belongs to the first head. Further down the errors add up.",
    ko:
      "마지막 블록에서는 attn.qkv의 기울기에 수는 모두 있지만 자리가 틀립니다. 첫 헤드의 몫이 앞쪽 토큰들에게 갑니다. " +
      "그 아래로 내려가면 오차가 쌓입니다.",
  },
  replaces: {
    self_attention_backward(dout, cache, keepGradient = keepNothing) {
      const { attention, n_head } = cache;
      const dheads = split_heads(dout, n_head);
      const gradients = ops.attention_backward(dheads, attention, keepGradient);
      const reshaped = gradients.map((gradient) => {
        const merged = zeros(dout.shape);
        merged.data.set(gradient.data); // merge_heads(gradient)
        return merged;
      });
      return sideBySide(reshaped);
    },
  },
};

export const VALUES_FORGOTTEN = {
  name: "ValuesForgotten",
  op: "self_attention",
  where: "backward",
  title: {
    en: "the values get no gradient",
    ko: "어텐션의 값이 기울기를 받지 못합니다",
  },
  says: {
    en: "The last third of attn.qkv has gradient 0. What a token says to later ones would never learn.",
    ko: "attn.qkv의 마지막 3분의 1은 기울기가 0입니다. 토큰이 뒤의 토큰에게 전하는 내용은 전혀 학습되지 않습니다.",
  },
  replaces: {
    self_attention_backward(dout, cache, keepGradient = keepNothing) {
      const { attention, n_head } = cache;
      const dheads = split_heads(dout, n_head);
      const [dq, dk] = ops.attention_backward(dheads, attention, keepGradient);
      const dv = zeros(dout.shape); // merge_heads(dv)
      return sideBySide([merge_heads(dq), merge_heads(dk), dv]);
    },
  },
};

export const HEAD_SIGN = {
  name: "HeadSign",
  op: "linear_cross_entropy",
  where: "backward",
  title: {
    en: "the gradient that goes on to the model points uphill",
    ko: "모델로 이어지는 기울기가 오르막을 향합니다",
  },
  says: {
    en:
      "All that stands before the head learns to make the loss larger: every gradient there has the wrong sign. One " +
      "is neither right nor reversed, that of the token table (wte or tokens_embed): it is the head too, and of its " +
      "two parts only the one of the look-up has the wrong sign.",
    ko:
      "출력 헤드 앞의 모든 것은 손실이 커지도록 배웁니다. 그곳의 기울기는 모두 부호가 반대입니다. " +
      "다만 토큰 표(wte 또는 tokens_embed)의 기울기는 맞지도, 부호가 반대이지도 않습니다. 토큰 표는 출력 헤드이기도 해서, " +
      "두 몫 가운데 조회한 쪽만 부호가 반대이기 때문입니다.",
  },
  replaces: {
    linear_cross_entropy_backward(dloss, cache, keepGradient) {
      const [dh, dw] = linear_cross_entropy_backward(dloss, cache, keepGradient);
      return [scaled(dh, -1), dw]; // dh
    },
  },
};
