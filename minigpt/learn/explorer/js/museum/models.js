// Planted mistakes in how a model puts its parts together.

import { attentionLayer_backward, layerNorm_backward, mlpLayer_backward } from "../models/layers.js";
import { linear_cross_entropy_backward } from "../ops/composites.js";
import { ops } from "../ops/table.js";
import { zeros } from "../tensor.js";

export const UNTIED_HEAD = {
  name: "UntiedHead",
  op: "gpt1",
  where: "backward",
  title: {
    en: "the output head adds nothing to the token embedding, which is the same matrix",
    ko: "토큰 임베딩과 같은 행렬인 출력 헤드가 토큰 임베딩에 아무것도 더하지 않습니다",
  },
  says: {
    en:
      "The token embedding gets the gradient of the look-up alone: rows of tokens that are not in the text have " +
      "gradient 0.",
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
    en:
      "Below the last block the gradient of the stream is smaller than the right one, and soon many times: what the " +
      "sum hands past the attention is lost in every block.",
    ko:
      "마지막 블록 아래에서는 스트림의 기울기가 올바른 기울기보다 작고, 곧 그 몇 분의 1이 됩니다. " +
      "블록마다 덧셈이 어텐션 옆으로 넘겨 주는 몫이 사라지기 때문입니다.",
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
