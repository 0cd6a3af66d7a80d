// Temperature, top-k and top-p: which tokens are left, and how likely each of them is. The rules are GPT-2's.

const TOKENS = ["kitchen", "garden", "park", "forest", "hill", "barn", "river", "school", "market", "moon"];
const LOGITS = [3.2, 2.0, 1.9, 1.8, 1.4, 1.3, 1.2, 1.1, 0.7, -0.5];

function softmax(logits) {
  const largest = Math.max(...logits);
  const e = logits.map((one) => Math.exp(one - largest));
  const sum = e.reduce((a, b) => a + b, 0);
  return e.map((one) => one / sum);
}

machines.sampling = {
  size: [640, 300],
  controls: [
    { name: "temperature", from: 0.1, to: 3, step: 0.05, value: 1 },
    { name: "top_k", from: 1, to: 10, step: 1, value: 10 },
    { name: "top_p", from: 0.05, to: 1, step: 0.05, value: 1 },
  ],

  // The tokens stand in the sequence of their logits, so the likeliest k are the first k.
  compute({ temperature, top_k, top_p }) {
    const at_temperature = softmax(LOGITS.map((one) => one / temperature));
    let kept = LOGITS.map((one, i) => (i < top_k ? one / temperature : -Infinity));
    if (top_p < 1) {
      let sum = 0;
      let inside = 0;
      for (const p of softmax(kept)) {
        sum += p;
        if (sum <= top_p) inside += 1;
      }
      kept = kept.map((one, i) => (i < Math.max(inside, 1) ? one : -Infinity));
    }
    const drawn = softmax(kept);
    const surprisals = drawn.filter((p) => p > 0).map((p) => -p * Math.log(p));
    return { at_temperature, drawn, entropy: surprisals.reduce((a, b) => a + b, 0) };
  },

  draw(drawing, { at_temperature, drawn }) {
    const wide = 440;
    TOKENS.forEach((token, i) => {
      const y = 8 + i * 29;
      drawing.text(80, y + 16, token, drawn[i] ? "" : "gone", "end");
      drawing.box(90, y, at_temperature[i] * wide, 22, "before");
      drawing.box(90, y + 5, drawn[i] * wide, 12, "after");
      const end = 96 + Math.max(at_temperature[i], drawn[i]) * wide;
      drawing.text(end, y + 16, drawn[i] ? `${(100 * drawn[i]).toFixed(1)} %` : "0", drawn[i] ? "" : "gone");
    });
  },

  says({ drawn, entropy }) {
    return { left: drawn.filter((p) => p > 0).length, all: TOKENS.length, even: Math.exp(entropy).toFixed(1) };
  },
};
