// Positions that turn: the arrows of a query and a key, and their product, which only the distance changes.

const PAIRS = 32; // of a head of 64 numbers
const THETA = 10000;
const SHOWN = [0, 4, 8, 16];
const angle_of = (pair) => THETA ** (-pair / PAIRS); // radians for each place
const product_at = (distance) => {
  let sum = 0;
  for (let pair = 0; pair < PAIRS; pair++) sum += Math.cos(distance * angle_of(pair));
  return sum / PAIRS;
};

machines.rotary = {
  size: [640, 320],
  controls: [
    { name: "query", from: 0, to: 60, step: 1, value: 12 },
    { name: "key", from: 0, to: 60, step: 1, value: 9 },
  ],

  compute({ query, key }) {
    const pairs = SHOWN.map((pair) => ({ pair, of_query: query * angle_of(pair), of_key: key * angle_of(pair) }));
    return { pairs, distance: query - key, product: product_at(query - key) };
  },

  draw(drawing, { pairs, distance, product }, values, words) {
    pairs.forEach(({ pair, of_query, of_key }, i) => {
      const [x, y, radius] = [85 + i * 157, 78, 58];
      drawing.dot(x, y, radius, "dial");
      for (const [angle, kind] of [[of_key, "of-key"], [of_query, "of-query"]]) {
        const tip = [x + radius * Math.cos(angle), y - radius * Math.sin(angle)];
        drawing.line([[x, y], tip], kind);
        drawing.dot(...tip, 5, `${kind} end`);
      }
      drawing.text(x, 158, filled(words.pair, { pair }), "gone", "middle");
    });
    const at = (n, value) => [20 + ((n + 60) / 120) * 600, 300 - 110 * value];
    const curve = [];
    for (let n = -60; n <= 60; n += 0.5) curve.push(at(n, product_at(n)));
    drawing.line([at(-60, 0), at(60, 0)], "level");
    drawing.line(curve, "way");
    drawing.dot(...at(distance, product), 6, "of-query end");
    drawing.text(620, 200, words.curve, "gone", "end");
  },

  says({ distance, product }) {
    return { distance, product: product.toFixed(3) };
  },
};
