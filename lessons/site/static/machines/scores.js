// Why scores are divided by sqrt(D): one query and eight keys of D random numbers, and the shares that they get.

const KEYS = 8;
const LARGEST = 1024;

// Numbers of a normal distribution, always the same ones: mulberry32, then Box and Muller.
function normal_numbers(count) {
  let state = 7;
  const uniform = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const one = () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  return Array.from({ length: count }, one);
}

const OF_QUERY = normal_numbers(LARGEST * (KEYS + 1) + KEYS);

machines.scores = {
  size: [640, 260],
  controls: [
    { name: "size", from: 1, to: 10, step: 1, value: 6 },
    { name: "divided", from: 0, to: 1, step: 1, value: 0 },
  ],
  shown: { size: (power) => 2 ** power, divided: (yes) => (yes ? "√D" : "1") },

  compute({ size, divided }) {
    const D = 2 ** size;
    const query = OF_QUERY.slice(0, D);
    const scores = [];
    for (let key = 1; key <= KEYS; key++) {
      const numbers = OF_QUERY.slice(key * LARGEST, key * LARGEST + D);
      const product = query.reduce((sum, one, i) => sum + one * numbers[i], 0);
      scores.push(product / (divided ? Math.sqrt(D) : 1));
    }
    const dp = OF_QUERY.slice(-KEYS);
    const largest = Math.max(...scores);
    const e = scores.map((score) => Math.exp(score - largest));
    const p = e.map((one) => one / e.reduce((a, b) => a + b, 0));
    const mean = p.reduce((sum, share, i) => sum + share * dp[i], 0);
    const ds = p.map((share, i) => share * (dp[i] - mean));
    const entropy = p.reduce((sum, share) => sum - (share ? share * Math.log(share) : 0), 0);
    return { scores, p, dp, ds, looks: Math.exp(entropy), length: Math.hypot(...ds) };
  },

  draw(drawing, { scores, p }, values, words) {
    p.forEach((share, i) => {
      const x = 30 + i * 76;
      drawing.box(x, 200 - 175 * share, 52, 175 * share, "after");
      drawing.text(x + 26, 190 - 175 * share, `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`, "", "middle");
      drawing.text(x + 26, 222, scores[i].toFixed(1), "gone", "middle");
    });
    drawing.line([[20, 200], [630, 200]], "level");
    drawing.text(325, 248, words.axis, "gone", "middle");
  },

  says({ looks, length }) {
    return { looks: looks.toFixed(1), keys: KEYS, length: length.toPrecision(2) };
  },
};
