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
const chosen = { blocks: 12, seed: 1, times: 5 };
let waiting = null;

export function drawDepth(host) {
  const controls = host.querySelector(".depth-controls");
  if (controls) controls.replaceWith(makeControls(host));
  else host.replaceChildren(makeControls(host), make("div", { class: "columns", id: "depth-charts" }));
  drawCharts(host);
}

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
  const draw = () => choose({ seed: chosen.seed + 1 });
  const again = makeButton(word("depth.again"), "depth-seed", draw);
  return make("div", { class: "menu depth-controls" }, label, slider, shown, range, again);
}

function later(host) {
  clearTimeout(waiting);
  waiting = setTimeout(() => drawCharts(host), 40);
}

// -> [{ name, style, values, gradients }]
// The size of a token's vector at each place of the stream (root mean square over the tokens), and of its gradient.
function measureKinds() {
  const ids = Array.from({ length: 16 }, (_, i) => (7 * i * i + 3 * i + 5 * chosen.seed) % SIZES.vocab_size);
  const targets = [...ids.slice(1), IGNORED];
  return KINDS.map(([kind, style]) => {
    const config = {
      ...SIZES,
      n_layer: chosen.blocks,
      initializer_range: SIZES.initializer_range * chosen.times,
    };
    const model = freshModel(kind, config, chosen.seed);
    const pass = runPass(model, ids, { targets });
    const norms = (which) =>
      streamNames(model).map((name) => normOf(pass.values.get(name)[which].data) / Math.sqrt(ids.length));
    return {
      name: word(style === "first" ? "depth.post" : "depth.pre"),
      style,
      values: norms("value"),
      gradients: norms("gradient"),
    };
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
        lines: measured.map((one) => ({ name: one.name, style: one.style, values: one[which] })),
      }),
    );
  const sentences = measured.map((one) =>
    word("depth.ratio", {
      model: one.name,
      ratio: writeNumber(one.gradients[1] / one.gradients[one.gradients.length - 1]),
      stream: writeNumber(one.values[one.values.length - 1] / one.values[1]),
    }),
  );
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
