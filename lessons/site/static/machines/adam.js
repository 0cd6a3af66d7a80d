// Adam in the valley of the lesson: loss = 50 a² + b² / 2, from (1, 1).

const STEEP = [100, 1]; // the gradient is STEEP times the point
const UPDATES = 40;
const EPS = 1e-8;
const loss_at = ([a, b]) => 50 * a * a + (b * b) / 2;

machines.adam = {
  size: [640, 300],
  controls: [
    { name: "rate", from: -3, to: 0, step: 0.05, value: -1.3 },
    { name: "beta1", from: 0, to: 0.99, step: 0.01, value: 0.9 },
    { name: "beta2", from: 0.5, to: 0.999, step: 0.001, value: 0.999 },
  ],
  shown: { rate: (power) => (10 ** power).toPrecision(2) },

  compute({ rate, beta1, beta2 }) {
    const path = [[1, 1]];
    const m = [0, 0];
    const v = [0, 0];
    for (let t = 1; t <= UPDATES; t++) {
      const here = path[path.length - 1];
      path.push(
        here.map((weight, i) => {
          const g = STEEP[i] * weight;
          m[i] = beta1 * m[i] + (1 - beta1) * g;
          v[i] = beta2 * v[i] + (1 - beta2) * g * g;
          const direction = m[i] / (1 - beta1 ** t) / (Math.sqrt(v[i] / (1 - beta2 ** t)) + EPS);
          return weight - 10 ** rate * direction;
        }),
      );
    }
    return { path, loss: loss_at(path[UPDATES]), largest: Math.max(...path.slice(-10).map(loss_at)) };
  },

  draw(drawing, { path }, values, words) {
    const at = ([a, b]) => [130 + b * 360, 150 - a * 70]; // b to the right, a upwards
    for (const level of [0.05, 0.4, 2, 8, 25, 50, 120]) {
      const ellipse = [];
      for (let i = 0; i <= 60; i++) {
        const angle = (i / 30) * Math.PI;
        ellipse.push(at([Math.sqrt(level / 50) * Math.sin(angle), Math.sqrt(2 * level) * Math.cos(angle)]));
      }
      drawing.line(ellipse, "level");
    }
    const inside = path.map(at).map(([x, y]) => [Math.min(Math.max(x, -20), 660), Math.min(Math.max(y, -20), 320)]);
    drawing.line(inside, "way");
    inside.forEach(([x, y]) => drawing.dot(x, y, 3, "step"));
    drawing.text(...at([-0.02, 0]), "★", "star", "middle");
    drawing.text(632, 292, words.axis_b, "gone", "end");
    drawing.text(8, 18, words.axis_a, "gone");
  },

  says({ path, loss }) {
    const [a, b] = path[UPDATES];
    return { updates: UPDATES, a: a.toPrecision(2), b: b.toPrecision(2), loss: loss.toPrecision(2) };
  },
};
