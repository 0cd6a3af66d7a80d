// What the drawing of the stage shows of the numbers: the stream of every token, attention, the inside of the MLPs.

import { blend, largest, shareOfPowers, styled } from "./colours.js";
import { middleOf } from "./parts.js";

const FAINTEST = 0.02; // attention weights below this are not drawn
const CELLS = 36; // small rectangles for the numbers inside an MLP, of one token
const MERGE = 16; // pixels in which a branch joins the stream
const OUTPUT = 9; // pixels at the end of attention that show its output

// which: "value" | "gradient"
export function paintNumbers(pen, scene, which) {
  const { view, parts, shape } = scene;
  paintStream(pen, scene, which);
  parts.forEach((part, k) => {
    const place = shape.places[k];
    if (!part.onStream) paintVeil(pen, shape, place);
    if (part.kind === "attn") paintLooks(pen, scene, k, which);
    else if (part.kind === "mlp") paintInside(pen, scene, k, which);
    else if (part.kind === "head" || !part.onStream) paintSizes(pen, scene, k, which, place.from + 5, place.to - 5);
  });
}

// Below a box the stream is seen through its card.
function paintVeil(pen, shape, { from, to }) {
  pen.fillStyle = styled("--card");
  pen.globalAlpha = 0.5;
  pen.fillRect(from + 2, shape.lane + 1, to - from - 4, shape.across - shape.lane - 2);
  pen.globalAlpha = 1;
}

// The stream of every token, as thick and as dark as its vector is long. A sum passes the gradient on as it is: it
// changes where the branch has left the stream.
function paintStream(pen, scene, which) {
  const { parts, shape } = scene;
  const states = [...parts.keys()].filter((k) => parts[k].onStream && parts[k].kind !== "head");
  const end = parts.at(-1).kind === "head" ? shape.places.at(-1).from : shape.places.at(-1).to;
  states.forEach((k, i) => {
    const next = states[i + 1];
    const { to } = shape.places[k];
    if (i === 0) paintBands(pen, scene, which, k, k, shape.places[k].from + 6, to);
    if (next === undefined) return paintBands(pen, scene, which, k, k, to, end);
    const { from } = shape.places[k + 1]; // of the branch
    const joins = which === "gradient" && parts[next].kind === "sum";
    const change = joins ? { from, to: from + MERGE } : shape.places[next];
    paintBands(pen, scene, which, k, k, to, change.from);
    paintBands(pen, scene, which, k, next, change.from, change.to);
    paintBands(pen, scene, which, next, next, change.to, shape.places[next].to);
  });
}

// A piece of all bands: from the sizes of one part to those of another.
function paintBands(pen, scene, which, first, second, from, to) {
  if (to <= from) return;
  const { view, shape, sizes, scales } = scene;
  const { part, paint } = scales[which];
  for (const t of view.ids.keys()) {
    const [a, b] = [sizes[which][first][t], sizes[which][second][t]];
    if (!(a > 0 || b > 0)) continue;
    const [thickA, thickB] = [a, b].map((size) => (size > 0 ? 1 + 0.36 * shape.row * part(size) : 0.5));
    const y = middleOf(shape, t);
    const bend = (from + to) / 2;
    const shades = pen.createLinearGradient(from, 0, to, 0);
    shades.addColorStop(0, paint(a > 0 ? a : b));
    shades.addColorStop(1, paint(b > 0 ? b : a));
    pen.fillStyle = first === second ? paint(a) : shades;
    pen.beginPath();
    pen.moveTo(from, y - thickA);
    pen.bezierCurveTo(bend, y - thickA, bend, y - thickB, to, y - thickB);
    pen.lineTo(to, y + thickB);
    pen.bezierCurveTo(bend, y + thickB, bend, y + thickA, from, y + thickA);
    pen.fill();
  }
}

// Attention: a line from the token that is looked at to the one that looks, as strong as the weight; on the way back as
// strong as the gradient of their score. At the end its output, as a part of the stream's scale.
function paintLooks(pen, scene, k, which) {
  const { view, shape } = scene;
  const { from, to } = shape.places[k];
  const end = to - OUTPUT;
  const { strength, most } = scene.pairs[which][k];
  const T = view.ids.length;
  const bend = (from + end) / 2;
  pen.strokeStyle = styled(which === "value" ? "--stage-look" : "--mark");
  const faint = view.ids.length > 3 ? 0.5 : 1; // of all tokens but the chosen one, so that its lines are seen
  for (let r = 0; r < T; r++) {
    for (let c = 0; c < T; c++) {
      const share = strength ? (strength[r * T + c] / most) ** (which === "value" ? 1 : 0.5) : 0;
      if (!(share > FAINTEST)) continue;
      const own = r === view.position;
      pen.globalAlpha = Math.min(own ? 0.3 + share : faint * share, 1);
      pen.lineWidth = (own ? 1 : 0.6) + Math.min(shape.row / 5, 2.8) * share;
      pen.beginPath();
      pen.moveTo(from + 3, middleOf(shape, c));
      pen.bezierCurveTo(bend, middleOf(shape, c), bend, middleOf(shape, r), end, middleOf(shape, r));
      pen.stroke();
    }
  }
  pen.globalAlpha = 1;
  paintSizes(pen, scene, k, which, end, to - 2);
}

// Of each pair of tokens: the mean weight of all heads; or the norm, over the heads, of the gradient of their scores.
// -> { strength: (T,T) or null, most }
export function pairsOf(view, part, which) {
  const kept = view.pass.values.get(`${part.name}.${which === "value" ? "p" : "s"}`)?.[which];
  if (!kept) return { strength: null, most: 1 };
  const heads = kept.shape[0];
  const strength = new Float64Array(view.ids.length ** 2);
  for (let h = 0; h < heads; h++) {
    kept.part(h).data.forEach((number, i) => {
      strength[i] += which === "value" ? number / heads : number * number;
    });
  }
  if (which === "value") return { strength, most: 1 };
  const roots = strength.map(Math.sqrt);
  return { strength: roots, most: largest(roots) || 1 };
}

// A cell for each token, in the colour of its size.
function paintSizes(pen, { view, shape, sizes, scales, parts }, k, which, from, to) {
  const { most, paint } = scales[which];
  const factor = parts[k].kind === "head" ? most / (largest(sizes[which][k]) || 1) : 1;
  for (const t of view.ids.keys()) {
    const size = sizes[which][k][t];
    if (!(size > 0)) continue;
    pen.fillStyle = paint(size * factor);
    pen.fillRect(from, middleOf(shape, t) - 0.36 * shape.row, to - from, 0.72 * shape.row);
  }
}

// The MLP: the numbers inside it, each token by itself; where they were not recorded, the size of its output.
function paintInside(pen, scene, k, which) {
  const { view, parts, shape } = scene;
  const { from, to } = shape.places[k];
  const inside = view.pass.values.get(`${parts[k].name}.a`)?.[which];
  if (!inside) return paintSizes(pen, scene, k, which, from + 5, to - 5);
  const width = inside.shape[1];
  const cells = Math.min(CELLS, width, Math.floor((to - from - 8) / 1.5));
  const most = largest(inside.data) || 1;
  const at = blend(which === "value" ? "--scale-up" : "--scale-back");
  const wide = (to - from - 8) / cells;
  for (const t of view.ids.keys()) {
    for (let i = 0; i < cells; i++) {
      const of = inside.row(t).subarray(Math.floor((i * width) / cells), Math.floor(((i + 1) * width) / cells));
      const part = largest(of) / most;
      if (!(part > 0)) continue;
      pen.fillStyle = `rgb(${at(which === "value" ? Math.sqrt(part) : shareOfPowers(part)).join(",")})`;
      pen.fillRect(from + 4 + i * wide, middleOf(shape, t) - 0.36 * shape.row, wide, 0.72 * shape.row);
    }
  }
}
