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
  ["openai-gpt", "first"],
  ["gpt2", "second"],
];
const TIMES = [1, 2, 5, 10]; // the standard deviation of the first weights, in units of 0.02
const DRAWS = 5; // of new weights: one draw says little where the norms grow or shrink with each block
const PROJECTIONS = ["paper", "smaller", "equal"]; // see freshModel
const chosen = { blocks: 12, seed: 1, times: 5, projections: "paper" };
let waiting = null;

export function drawDepth(host) {
  const controls = host.querySelector(".depth-controls");
  const [above, below] = makeControls(host);
  if (controls) {
    controls.replaceWith(above);
    host.querySelector(".depth-options").replaceWith(below);
  } else {
    host.replaceChildren(above, make("div", { class: "columns", id: "depth-charts" }), below);
  }
  drawCharts(host);
}

// -> [the slider, which stands directly above the charts; the other choices, which stand below them]
function makeControls(host) {
  const shown = make("output", { for: "depth-slider" }, word("depth.blocks", { n: chosen.blocks }));
  const choose = (choice) => {
    Object.assign(chosen, choice);
    shown.textContent = word("depth.blocks", { n: chosen.blocks });
    later(host);
  };
  const slider = make("input", { type: "range", min: 1, max: 24, value: chosen.blocks, id: "depth-slider" });
  slider.addEventListener("input", () => choose({ blocks: Number(slider.value) }));
  const options = TIMES.map((times) => {
    const deviation = (SIZES.initializer_range * times).toFixed(2);
    return make("option", { value: times, selected: times === chosen.times }, deviation);
  });
  const label = make("label", { for: "depth-slider" }, word("depth.label"));
  const range = makeMenu("depth-range", word("depth.range"), options, (times) =>
    choose({ times: Number(times) }),
  );
  const draw = () => choose({ seed: chosen.seed + DRAWS });
  const again = makeButton(word("depth.again"), "depth-seed", draw);
  const projections = makeProjections(choose);
  return [
    make("div", { class: "menu depth-controls" }, label, slider, shown),
    make("div", { class: "menu depth-options" }, range, projections, again),
  ];
}

// The switch: are the projections that end on the stream drawn smaller?
function makeProjections(choose) {
  const options = PROJECTIONS.map((value) =>
    make("option", { value, selected: value === chosen.projections }, word(`depth.projections_${value}`)),
  );
  return makeMenu("depth-projections", word("depth.projections"), options, (projections) =>
    choose({ projections }),
  );
}

function later(host) {
  clearTimeout(waiting);
  waiting = setTimeout(() => drawCharts(host), 120); // while the slider moves nothing is computed
}

// -> [{ name, style, draws: [{ values, gradients }] }]
function measureKinds() {
  const seeds = Array.from({ length: DRAWS }, (_, i) => chosen.seed + i);
  return KINDS.map((kind) => ({
    name: word(kind[1] === "first" ? "depth.post" : "depth.pre"),
    style: kind[1],
    draws: seeds.map((seed) => measureOne(kind, seed)),
  }));
}

// -> { values, gradients }: the norm of a token's vector at each place of the stream (root mean square over the
// tokens), and that of its gradient (over the tokens that have a target: the gradient of the last one is 0).
function measureOne([kind], seed) {
  const ids = Array.from({ length: 16 }, (_, i) => (7 * i * i + 3 * i + 5 * seed) % SIZES.vocab_size);
  const targets = [...ids.slice(1), IGNORED];
  const config = {
    ...SIZES,
    n_layer: chosen.blocks,
    initializer_range: SIZES.initializer_range * chosen.times,
  };
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

function drawCharts(host) {
  const measured = measureKinds();
  const xLabels = Array.from({ length: chosen.blocks + 1 }, (_, i) =>
    i ? String(i - 1) : word("stream.start"),
  );
  const chart = (which, title) =>
    make(
      "div",
      { class: "column" },
      make("h3", {}, word(title)),
      makeLineChart({
        label: word(title),
        xLabels,
        xTitle: word("stream.x"),
        yTitle: word("stream.y"),
        power: true,
        width: chartWidth(2),
        lines: measured.flatMap((one) => linesOf(one, which)),
      }),
    );
  const sentences = measured.map(sayRatio);
  host.querySelector("#depth-charts").replaceChildren(
    chart("values", "depth.stream"),
    chart("gradients", "depth.gradient"),
    make(
      "ul",
      { class: "wide" },
      sentences.map((sentence) => make("li", {}, sentence)),
    ),
  );
  announce(sentences.join(" "));
}
