// Viterbi on the lattice of the lesson: the likeliest way to each place is found from the ways to the places before it.

const WORD = "lowest";
const PIECES = {
  l: 0.05, o: 0.05, w: 0.05, e: 0.1, s: 0.1, t: 0.1, lo: 0.05, low: 0.15, lowe: 0.05, est: 0.2, st: 0.1,
};

// How high the bow of a piece rises above the letters; two hang below them, where they cross no other.
function height_of(piece) {
  if (piece === "lowe" || piece === "st") return -20 - 18 * piece.length;
  return piece.length === 1 ? 26 : 34 * piece.length + 20;
}

machines.viterbi = {
  size: [640, 272],
  controls: [
    { name: "place", from: 0, to: 6, step: 1, value: 6 },
    { name: "low", from: 0.01, to: 0.5, step: 0.01, value: 0.15 },
    { name: "lowe", from: 0.01, to: 0.5, step: 0.01, value: 0.05 },
    { name: "est", from: 0.01, to: 0.5, step: 0.01, value: 0.2 },
  ],

  // best: the ln of the probability of the likeliest way to each place; came: the piece with which it ends there.
  compute({ place, low, lowe, est }) {
    const probabilities = { ...PIECES, low, lowe, est };
    const best = [0];
    const came = [""];
    for (let end = 1; end <= WORD.length; end++) {
      best.push(-Infinity);
      came.push("");
      for (let begin = 0; begin < end; begin++) {
        const piece = WORD.slice(begin, end);
        const total = best[begin] + Math.log(probabilities[piece] ?? 0);
        if (total > best[end]) {
          best[end] = total;
          came[end] = piece;
        }
      }
    }
    const way = [];
    for (let at = place; at > 0; at -= came[at].length) way.unshift(came[at]);
    return { probabilities, best: best.slice(0, place + 1), came: came.slice(0, place + 1), way };
  },

  draw(drawing, { probabilities, best, came, way }, { place }) {
    const x_of = (at) => 35 + at * 95;
    const y = 160;
    const on_way = new Set();
    let begun = 0;
    for (const piece of way) {
      on_way.add(`${begun} ${piece}`);
      begun += piece.length;
    }
    const kind_of = (begin, end, piece) => {
      if (on_way.has(`${begin} ${piece}`)) return "best on-way";
      if (end > place) return "ahead";
      return came[end] === piece ? "best" : "left";
    };
    const labels = [];
    for (const [piece, p] of Object.entries(probabilities)) {
      const begin = WORD.indexOf(piece);
      const end = begin + piece.length;
      const up = height_of(piece);
      drawing.bow(x_of(begin) + 10, x_of(end) - 10, y, up, kind_of(begin, end, piece));
      const middle = (x_of(begin) + x_of(end)) / 2;
      const above = y - 0.75 * up + (up > 0 ? -6 : 16);
      labels.push([middle, above, `${piece} ${p.toFixed(2)}`, end > place ? "gone" : "", "middle"]);
    }
    for (const label of labels) drawing.text(...label);
    for (let at = 0; at <= WORD.length; at++) {
      drawing.dot(x_of(at), y, 11, at <= place ? "reached" : "dial");
      drawing.text(x_of(at), y + 5, at, "place", "middle");
      if (at <= place) drawing.text(x_of(at), 262, best[at].toFixed(2), "gone", "middle");
    }
  },

  says({ best, way }, { place }) {
    return { place, way: way.join(" | "), p: Math.exp(best[place]).toPrecision(3) };
  },
};
