// Planted mistakes: pieces of the museum (`minigpt learn bug`), under the names they have there.
//
// Each replaces one function of the table, or two. The line that is wrong has a comment that says what stood there.

import { attention_backward, attention_forward } from "./ops/attention.js";
import { linear_cross_entropy_backward, merge_heads, sideBySide, split_heads } from "./ops/composites.js";
import { cross_entropy_backward } from "./ops/cross_entropy.js";
import { GELU_A, GELU_C } from "./ops/gelu.js";
import { layernorm_backward } from "./ops/layernorm.js";
import { linear_backward, linear_forward } from "./ops/linear.js";
import { softmax_forward } from "./ops/softmax.js";
import { keepNothing, ops } from "./ops/table.js";
import { product, productWithTransposed } from "./product.js";
import { attentionLayer_backward, layerNorm_backward, mlpLayer_backward } from "./models/layers.js";
import { forEachHead } from "./ops/attention.js";
import { scaled, zeros } from "./tensor.js";

export const MEAN_OF_THE_BIAS = {
  name: "MeanOfTheBias",
  op: "linear",
  where: "backward",
  title: {
    en: "the gradient of b is a mean over the rows, where it must be their sum",
    ko: "b의 기울기가 행 방향의 합이어야 하는데 평균입니다",
  },
  says: {
    en: "The gradient of every bias of a linear layer is too small, by the number of tokens. All else is right.",
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
    en: "The loss changes. A bias of a linear layer has no effect any more: its true slope is 0, but the backward pass says otherwise.",
    ko: "손실이 달라집니다. 선형층의 편향은 아무 영향도 주지 않아 실제 기울기가 0인데, 역전파는 0이 아니라고 합니다.",
  },
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
    en: "The error is small: where x is near 0 the cube hardly counts. Training would go on; a finite difference finds it.",
    ko: "오차가 작습니다. x가 0에 가까우면 세제곱의 몫이 아주 작기 때문입니다. 학습은 되지만, 유한 차분으로 찾을 수 있습니다.",
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

export const SHIFT_DROPPED = {
  name: "ShiftDropped",
  op: "layernorm",
  where: "backward",
  title: {
    en: "dx without the term of the mean",
    ko: "dx에 평균의 항이 없습니다",
  },
  says: {
    en: "Each row of dx is off by one number, the same for the whole row: a LayerNorm takes the mean out of x, so the row of dx must sum to 0.",
    ko: "dx의 각 행이 행 전체에서 같은 수 하나만큼 어긋납니다. LayerNorm은 x에서 평균을 빼므로 dx의 행은 합이 0이어야 합니다.",
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
    en: "Each row of dx is off by a multiple of x_hat: as if a longer row of x gave a longer row of out.",
    ko: "dx의 각 행이 x_hat의 배수만큼 어긋납니다. x의 행이 길어지면 out의 행도 길어진다고 보는 셈입니다.",
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

export const ROW_SUM_DROPPED = {
  name: "RowSumDropped",
  op: "attention",
  where: "backward",
  title: {
    en: "the softmax's own sum over the row is left out",
    ko: "소프트맥스 자체의 행 방향 합이 빠졌습니다",
  },
  says: {
    en: "The gradient of the scores, attn.s, no longer sums to 0 in each row: as if one probability could grow and the others stay.",
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
    en: "In attn.qkv the gradients of queries and keys are too large by sqrt(D); those of the values are right.",
    ko: "attn.qkv에서 쿼리와 키의 기울기가 sqrt(D)배 큽니다. 값의 기울기는 맞습니다.",
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
    en: "Attention becomes sharper and the loss changes. Every gradient is right, for this other model: a finite difference finds nothing.",
    ko: "어텐션이 더 뾰족해지고 손실이 달라집니다. 기울기는 모두 이 다른 모델의 기울기로서 맞으므로, 유한 차분으로는 찾을 수 없습니다.",
  },
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
    en: "Attention fills the upper triangle too. Each position sees the token that it has to predict. Every gradient is right, for this other model.",
    ko: "어텐션이 위쪽 삼각형까지 채워집니다. 각 위치가 예측해야 할 토큰을 미리 봅니다. 기울기는 모두 이 다른 모델의 기울기로서 맞습니다.",
  },
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
    en: "In attn.qkv the first third has the gradient of the second, and the second that of the first. The shapes are equal, so that nothing is refused.",
    ko: "attn.qkv에서 첫째 3분의 1과 둘째 3분의 1의 기울기가 서로 바뀝니다. 모양이 같아서 오류가 나지 않습니다.",
  },
  replaces: {
    attention_backward(dout, cache, keepGradient) {
      const [dq, dk, dv] = attention_backward(dout, cache, keepGradient);
      return [dk, dq, dv]; // [dq, dk, dv]
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
    en: "All numbers of the gradient of attn.qkv are there, at wrong places: the first tokens get what belongs to the first head.",
    ko: "attn.qkv의 기울기에 수는 모두 있지만 자리가 틀립니다. 첫 헤드의 몫이 앞쪽 토큰들에게 갑니다.",
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
    en: "The gradient of the logits is the probability itself: every row sums to its share of the loss, where it must sum to 0.",
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

export const HEAD_SIGN = {
  name: "HeadSign",
  op: "linear_cross_entropy",
  where: "backward",
  title: {
    en: "the gradient that goes on to the model points uphill",
    ko: "모델로 이어지는 기울기가 오르막을 향합니다",
  },
  says: {
    en: "The head learns, and all that stands before it learns to make the loss larger: every gradient there has the wrong sign.",
    ko: "출력 헤드는 제대로 배우지만 그 앞의 모든 것은 손실이 커지도록 배웁니다. 그곳의 기울기는 모두 부호가 반대입니다.",
  },
  replaces: {
    linear_cross_entropy_backward(dloss, cache, keepGradient) {
      const [dh, dw] = linear_cross_entropy_backward(dloss, cache, keepGradient);
      return [scaled(dh, -1), dw]; // dh
    },
  },
};

export const UNTIED_HEAD = {
  name: "UntiedHead",
  op: "gpt1",
  where: "backward",
  title: {
    en: "the output head adds nothing to the token embedding, which is the same matrix",
    ko: "토큰 임베딩과 같은 행렬인 출력 헤드가 토큰 임베딩에 아무것도 더하지 않습니다",
  },
  says: {
    en: "The token embedding gets the gradient of the look-up alone: rows of tokens that are not in the text have gradient 0.",
    ko: "토큰 임베딩이 조회한 쪽의 기울기만 받습니다. 글에 없는 토큰의 행은 기울기가 0입니다.",
  },
  replaces: {
    linear_cross_entropy_backward(dloss, cache, keepGradient) {
      const [dh, dw] = linear_cross_entropy_backward(dloss, cache, keepGradient);
      return [dh, zeros(dw.shape)]; // dw
    },
  },
};

export const FIRST_RESIDUAL_FORGOTTEN = {
  name: "FirstResidualForgotten",
  op: "gpt1",
  where: "backward",
  title: {
    en: "the gradient goes through the attention, and not past it",
    ko: "기울기가 어텐션을 통과하기만 하고 그 옆으로는 흐르지 않습니다",
  },
  says: {
    en: "From block to block the gradient of the stream becomes smaller: what the sum hands past the attention is lost.",
    ko: "블록을 거슬러 갈 때마다 스트림의 기울기가 작아집니다. 덧셈이 어텐션 옆으로 넘겨 주는 몫이 사라집니다.",
  },
  replaces: {
    gpt1Block_backward(dout, block) {
      let dx = layerNorm_backward(dout, block.part("ln_2"));
      block.keepGradient("x_mlp", dx);
      const dm = mlpLayer_backward(dx, block.part("mlp"));
      dx = ops.add(dx, dm);
      dx = layerNorm_backward(dx, block.part("ln_1"));
      block.keepGradient("x_attn", dx);
      const da = attentionLayer_backward(dx, block.part("attn"));
      return da; // ops.add(dx, da)
    },
    gpt2Block_backward(dout, block) {
      block.keepGradient("x", dout);
      let dm = mlpLayer_backward(dout, block.part("mlp"));
      dm = layerNorm_backward(dm, block.part("ln_2"));
      const dx = ops.add(dout, dm);
      block.keepGradient("x_attn", dx);
      let da = attentionLayer_backward(dx, block.part("attn"));
      da = layerNorm_backward(da, block.part("ln_1"));
      return da; // ops.add(dx, da)
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

export const MUSEUM = [
  MEAN_OF_THE_BIAS,
  BIAS_NOT_ADDED,
  ASSIGNS_ROWS,
  GELU_WITHOUT_THE_INNER_DERIVATIVE,
  GELU_WITHOUT_THE_CUBE,
  GELU_FORGOTTEN_IN_THE_MLP,
  SHIFT_DROPPED,
  STRETCH_DROPPED,
  GAIN_FORGOTTEN,
  ROW_SUM_DROPPED,
  SCALE_FORGOTTEN_IN_THE_BACKWARD,
  SCALE_FORGOTTEN_IN_THE_FORWARD,
  NOT_CAUSAL,
  QUERY_AND_KEY_SWAPPED,
  HEADS_RESHAPED_ONLY,
  VALUES_FORGOTTEN,
  SUM_FOR_MEAN,
  ONE_HOT_FORGOTTEN,
  HEAD_SIGN,
  UNTIED_HEAD,
  FIRST_RESIDUAL_FORGOTTEN,
];
