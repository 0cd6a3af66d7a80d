// The parts of a model in the order of its forward pass, and where each stands in the drawing of the stage.

import { normOf } from "../vectors.js";

const OF_THE_EMBEDDING = /^(x|tokens|positions|segments|tokens_embed|positions_embed|wte|wpe)(\.|$)/;

// All lengths are pixels. Wide: the values run from left to right; turned, where there is little room, from top to
// bottom.
// start: room for the names of the tokens, before the first part; gap: between two blocks; end: behind the last part;
// lengths: of the parts, along the way; lane: room for the names of the parts, beside the tokens;
// over, branch, stream: where lines run in the lane, across the way
const WIDE = {
  start: 92,
  lane: 90,
  branch: 42,
  over: 23,
  stream: 72,
  gap: 12,
  end: 26,
  lengths: { embedding: 66, norm: 28, attn: 96, sum: 25, mlp: 56, head: 48 },
};
const TURNED = {
  start: 66,
  lane: 88,
  branch: 34,
  over: 1,
  stream: 76,
  gap: 16,
  end: 10,
  lengths: { embedding: 28, norm: 21, attn: 48, sum: 18, mlp: 34, head: 30 },
};
export const TURNED_BELOW = 824; // a drawing that is narrower than this is turned
const LEAST = 0.55; // of the lengths above: what needs more room than there is scrolls in its own box
const ALL_TOKENS = 348; // of all tokens together, where they stand below each other

// -> [{ name: of its value, kind: "embedding" | "norm" | "attn" | "sum" | "mlp" | "head",
//       block: its number from 0, or null, onStream: is it on the stream, and not on a branch? }]
export function partsOf(view) {
  const { values } = view.pass;
  const ofBlock = view.model.pre_norm
    ? ["ln_1", "attn", "x_attn", "ln_2", "mlp", "x"]
    : ["attn", "x_attn", "ln_1", "mlp", "x_mlp", "ln_2"];
  const names = [["x", null]];
  for (let i = 0; i < view.model.config.n_layer; i++) {
    for (const one of ofBlock) names.push([`h.${i}.${one}`, i]);
  }
  names.push(["ln_f", null], ["logits", null]);
  const there = names.filter(([name]) => values.has(name));
  return there.map(([name, block]) => makePart(name, block, view.model.pre_norm));
}

function makePart(name, block, preNorm) {
  const last = name.split(".").at(-1);
  const kinds = { logits: "head", attn: "attn", mlp: "mlp", ln_1: "norm", ln_2: "norm", ln_f: "norm" };
  const kind = name === "x" ? "embedding" : (kinds[last] ?? "sum");
  const onBranch = kind === "attn" || kind === "mlp" || (kind === "norm" && preNorm && block !== null);
  return { kind, block, name, onStream: !onBranch };
}

// Does this value or parameter belong to the part?
export function belongsTo(part, name) {
  if (part.kind === "embedding") return OF_THE_EMBEDDING.test(name);
  return name === part.name || name.startsWith(`${part.name}.`);
}

// How long the vector of each position is: what the drawing shows. which: "value" | "gradient"; NaN where it was not
// recorded
export function sizesOf(view, part, which) {
  const kept = view.pass.values.get(part.name);
  if (view.recorded && kept.norms?.[which]) return kept.norms[which];
  if (!kept[which]) return view.ids.map(() => NaN);
  return view.ids.map((_, t) => normOf(kept[which].row(t)));
}

// room: pixels of the drawing's width -> { turned, lane, ..., row: pixels of a token, along, across: of the whole,
// places: for each part { from, to } along the way }
export function layOut(parts, tokens, room) {
  const turned = room < TURNED_BELOW;
  const shape = turned ? TURNED : WIDE;
  const gaps = parts.map((part, i) => (part.block !== null && part.block !== parts[i - 1].block ? shape.gap : 0));
  const whole = parts.reduce((sum, part) => sum + shape.lengths[part.kind], 0);
  const fixed = shape.start + shape.end + gaps.reduce((sum, gap) => sum + gap, 0);
  const factor = turned ? 1 : Math.max((room - fixed) / whole, LEAST);
  const row = turned ? Math.min((room - shape.lane) / tokens, 44) : Math.min(Math.max(ALL_TOKENS / tokens, 5), 44);
  let at = shape.start;
  const places = parts.map((part, i) => {
    const from = at + gaps[i];
    at = from + shape.lengths[part.kind] * factor;
    return { from, to: at };
  });
  return { ...shape, turned, row, places, along: at + shape.end, across: shape.lane + tokens * row };
}

// Where the row of a token lies, across the way.
export function middleOf(shape, t) {
  return shape.lane + (t + 0.5) * shape.row;
}
