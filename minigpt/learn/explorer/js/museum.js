// Planted mistakes: pieces of the museum (`minigpt learn bug`), by their names there. What each is called, and what it
// does to the gradients, stands there too: the page is given these words.
//
// A piece is one function of the table, or two, with a mistake. The wrong line has a comment: what should stand there.

import { attentionLayer_backward, layerNorm_backward, mlpLayer_backward } from "./models/layers.js";
import { attention_backward, attention_forward, forEachHead } from "./ops/attention.js";
import { linear_cross_entropy_backward, merge_heads, sideBySide, split_heads } from "./ops/composites.js";
import { cross_entropy_backward } from "./ops/cross_entropy.js";
import { GELU_A, GELU_C } from "./ops/gelu.js";
import { layernorm_backward } from "./ops/layernorm.js";
import { linear_backward, linear_forward } from "./ops/linear.js";
import { softmax_forward } from "./ops/softmax.js";
import { keepNothing, ops } from "./ops/table.js";
import { product, productWithTransposed } from "./product.js";
import { scaled, zeros } from "./tensor.js";

export const MUSEUM = {
  MeanOfTheBias: {
    linear_backward(dout, cache) {
      const [dx, dw, db] = linear_backward(dout, cache);
      const [T] = dout.shape;
      return [dx, dw, db === null ? null : scaled(db, 1 / T)]; // db
    },
  },
  BiasNotAdded: {
    linear_forward(x, w, b = null) {
      const [out] = linear_forward(x, w, null); // b
      return [out, { x, w, b }];
    },
  },
  AssignsRows: {
    embedding_backward(dout, cache) {
      const { w, ids } = cache;
      const dw = zeros(w.shape);
      for (let t = 0; t < ids.length; t++) {
        dw.row(ids[t]).set(dout.row(t)); // each row is added
      }
      return dw;
    },
  },
  GeluWithoutTheInnerDerivative: {
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
  GeluWithoutTheCube: {
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
  GeluForgottenInTheMlp: {
    mlp_backward(dout, cache, keepGradient = keepNothing) {
      const [da, dw2, db2] = ops.linear_backward(dout, cache.proj);
      keepGradient("a", da);
      const df = da; // ops.gelu_backward(da, cache.gelu)
      keepGradient("f", df);
      const [dx, dw1, db1] = ops.linear_backward(df, cache.fc);
      return [dx, dw1, db1, dw2, db2];
    },
  },
  ShiftDropped: {
    layernorm_backward(dout, cache) {
      const [, dg, db] = layernorm_backward(dout, cache);
      const dx = layernormInput_backward(dout, cache, { withShift: false, withStretch: true });
      return [dx, dg, db];
    },
  },
  StretchDropped: {
    layernorm_backward(dout, cache) {
      const [, dg, db] = layernorm_backward(dout, cache);
      const dx = layernormInput_backward(dout, cache, { withShift: true, withStretch: false });
      return [dx, dg, db];
    },
  },
  GainForgotten: {
    layernorm_backward(dout, cache) {
      const { x_hat, rstd, g } = cache;
      const [, dg, db] = layernorm_backward(dout, cache);
      const ones = zeros(g.shape);
      ones.data.fill(1);
      const [dx] = layernorm_backward(dout, { x_hat, rstd, g: ones }); // g
      return [dx, dg, db];
    },
  },
  RowSumDropped: {
    softmax_backward(dp, cache) {
      const { p } = cache;
      const dx = zeros(p.shape);
      for (let i = 0; i < dx.data.length; i++) {
        dx.data[i] = p.data[i] * dp.data[i]; // p * (dp - average)
      }
      return dx;
    },
  },
  ScaleForgottenInTheBackward: {
    attention_backward(dout, cache, keepGradient) {
      const [dq, dk, dv] = attention_backward(dout, cache, keepGradient);
      const undo = 1 / cache.scale;
      return [scaled(dq, undo), scaled(dk, undo), dv]; // dq, dk
    },
  },
  ScaleForgottenInTheForward: {
    attention_forward(q, k, v, keep) {
      const [, , D] = q.shape;
      const [out, cache] = attention_forward(scaled(q, Math.sqrt(D)), k, v, keep); // q: the two factors cancel
      return [out, { ...cache, q, scale: 1 }];
    },
  },
  NotCausal: {
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
  QueryAndKeySwapped: {
    attention_backward(dout, cache, keepGradient) {
      const [dq, dk, dv] = attention_backward(dout, cache, keepGradient);
      return [dk, dq, dv]; // [dq, dk, dv]
    },
  },
  HeadsReshapedOnly: {
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
  ValuesForgotten: {
    self_attention_backward(dout, cache, keepGradient = keepNothing) {
      const { attention, n_head } = cache;
      const dheads = split_heads(dout, n_head);
      const [dq, dk] = ops.attention_backward(dheads, attention, keepGradient);
      const dv = zeros(dout.shape); // merge_heads(dv)
      return sideBySide([merge_heads(dq), merge_heads(dk), dv]);
    },
  },
  SumForMean: {
    cross_entropy_backward(dloss, cache) {
      const counted = cache.share.filter((share) => share > 0).length;
      return cross_entropy_backward(dloss * counted, cache); // dloss
    },
  },
  OneHotForgotten: {
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
  HeadSign: {
    linear_cross_entropy_backward(dloss, cache, keepGradient) {
      const [dh, dw] = linear_cross_entropy_backward(dloss, cache, keepGradient);
      return [scaled(dh, -1), dw]; // dh
    },
  },
  UntiedHead: {
    linear_cross_entropy_backward(dloss, cache, keepGradient) {
      const [dh, dw] = linear_cross_entropy_backward(dloss, cache, keepGradient);
      return [dh, zeros(dw.shape)]; // dw
    },
  },
  FirstResidualForgotten: {
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

// Of a mistake in the forward pass: the gradients that are wrong for the loss of that pass. Where it has no entry both
// passes agree, and none is wrong.
export const WRONG_FOR_ITS_LOSS = {
  BiasNotAdded: /\.(c_attn|c_proj|c_fc)\.bias$/,
};

// dx of a LayerNorm, with or without the two terms that come from the mean and from the variance.
function layernormInput_backward(dout, cache, { withShift, withStretch }) {
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
