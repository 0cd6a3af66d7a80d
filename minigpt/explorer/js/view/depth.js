// GPT-1 beside GPT-2 with new weights, from 1 to 24 blocks: where the norm of the stream and of the gradient goes.

import { IGNORED } from "../ops/cross_entropy.js";
import { freshModel, runPass, streamNames } from "../session.js";
import { normOf } from "../vectors.js";
import { announce, make, makeButton, makeMenu, writeNumber } from "./make.js";
import { chartWidth, makeLineChart } from "./charts.js";
import { word } from "./words.js";

const SIZES = {
  vocab_size: 48,
  n_positions: 16,
  n_embd: 32,
  n_head: 4,
  layer_norm_epsilon: 1e-5,
  initializer_range: 0.02,
};
const KINDS = [
  { kind: "openai-gpt", name: "depth.post", style: "first" },
  { kind: "gpt2", name: "depth.pre", style: "second" },
];
const TIMES = [1, 2, 5, 10]; // the standard deviation of the first weights, in units of 0.02
const DRAWS = 5; // of new weights: one draw says little where the norms grow or shrink with each block
const PROJECTIONS = ["paper", "smaller", "equal"]; // see freshModel
const PAUSE = 120; // milliseconds: while the slider moves nothing is computed
const chosen = { blocks: 12, seed: 1, times: 5, projections: "paper" };
let waiting = null;

export function drawDepth(host) {
  const shown = make("output", { for: "depth-slider" }, word("depth.blocks", { n: chosen.blocks }));
  const charts = make("div", { class: "columns", id: "depth-charts" });
  const choose = (choice) => {
    Object.assign(chosen, choice);
    shown.textContent = word("depth.blocks", { n: chosen.blocks });
    clearTimeout(waiting);
    waiting = setTimeout(() => drawCharts(charts), PAUSE);
  };
  const slider = [make("label", { for: "depth-slider" }, word("depth.label")), makeSlider(choose), shown];
  host.replaceChildren(
    make("div", { class: "menu depth-controls" }, slider),
    charts,
    make("div", { class: "menu depth-options" }, makeOptions(choose)),
  );
  drawCharts(charts);
}

function makeSlider(choose) {
  const oninput = (event) => choose({ blocks: Number(event.target.value) });
  return make("input", { type: "range", min: 1, max: 24, value: chosen.blocks, id: "depth-slider", oninput });
}

function makeOptions(choose) {
  const option = (value, label, now) => make("option", { value, selected: value === now }, label);
  const times = TIMES.map((one) => option(one, (SIZES.initializer_range * one).toFixed(2), chosen.times));
  const projections = PROJECTIONS.map((one) => option(one, word(`depth.projections_${one}`), chosen.projections));
  return [
    makeMenu("depth-range", word("depth.range"), times, (one) => choose({ times: Number(one) })),
    makeMenu("depth-projections", word("depth.projections"), projections, (one) => choose({ projections: one })),
    makeButton(word("depth.again"), "depth-seed", () => choose({ seed: chosen.seed + DRAWS })),
  ];
}

function drawCharts(host) {
  const measured = KINDS.map(measureKind);
  const chart = (which, key) => {
    const lines = measured.flatMap((one) => linesOf(one, which));
    const drawn = makeLineChart({ label: word(key), lines, power: true, width: chartWidth(2) });
    return make("div", { class: "column" }, make("h3", {}, word(key)), drawn);
  };
  const sentences = measured.map(sayRatio);
  const said = make("ul", { class: "wide" }, sentences.map((sentence) => make("li", {}, sentence)));
  host.replaceChildren(chart("values", "depth.stream"), chart("gradients", "depth.gradient"), said);
  announce(sentences.join(" "));
}

// -> { name, style, draws: [{ values, gradients }] }
function measureKind({ kind, name, style }) {
  const seeds = Array.from({ length: DRAWS }, (_, i) => chosen.seed + i);
  return { name: word(name), style, draws: seeds.map((seed) => measureOne(kind, seed)) };
}

// -> { values, gradients }: the norm of a token's vector at each place of the stream (root mean square over the
// tokens), and that of its gradient (over the tokens that have a target: the gradient of the last one is 0).
function measureOne(kind, seed) {
  const ids = Array.from({ length: 16 }, (_, i) => (7 * i * i + 3 * i + 5 * seed) % SIZES.vocab_size);
  const targets = [...ids.slice(1), IGNORED];
  const initializer_range = SIZES.initializer_range * chosen.times;
  const config = { ...SIZES, n_layer: chosen.blocks, initializer_range };
  const model = freshModel(kind, config, seed, chosen.projections);
  const pass = runPass(model, ids, { targets });
  const norms = (which, tokens) =>
    streamNames(model).map((name) => normOf(pass.values.get(name)[which].data) / Math.sqrt(tokens));
  return { values: norms("value", ids.length), gradients: norms("gradient", ids.length - 1) };
}

// A thin line for each draw, and the median of them.
function linesOf({ name, style, draws }, which) {
  const thin = draws.map((draw) => ({ name, style, values: draw[which], thin: true }));
  const median = draws[0][which].map((_, i) => inOrder(draws.map((draw) => draw[which][i]))[(DRAWS - 1) / 2]);
  return [...thin, { name, style, values: median }];
}

function inOrder(numbers) {
  return [...numbers].sort((a, b) => a - b);
}

// How far the gradient and the stream grew or shrank, in the smallest and the largest of the draws.
function sayRatio({ name, draws }) {
  const gradients = inOrder(draws.map((draw) => draw.gradients[1] / draw.gradients.at(-1)));
  const stream = inOrder(draws.map((draw) => draw.values.at(-1) / draw.values[1]));
  return word("depth.ratio", {
    model: name,
    n: DRAWS,
    low: writeNumber(gradients[0]),
    high: writeNumber(gradients.at(-1)),
    stream_low: writeNumber(stream[0]),
    stream_high: writeNumber(stream.at(-1)),
  });
}
