// The heart of the page: the gradient of one loss, walking back through blocks, heads and tokens.

import { announce, make, writeNumber } from "./make.js";
import { largest, makeLegend, scaleOfPowers } from "./colours.js";
import { cellSize, makeHeatmap } from "./heatmap.js";
import { nameStep, sayStep, stepsOf, titleOf } from "./steps.js";
import { change, state } from "./state.js";
import { word } from "./words.js";

const player = { timer: null };

export function drawBackward(host, views) {
  const longest = Math.max(...views.map((view) => stepsOf(view).length));
  host.replaceChildren(
    makeButtons(longest - 1),
    make(
      "div",
      { class: "columns" },
      views.map((view) => drawOneWalk(view, views.length)),
    ),
  );
}

// First, back, one step, play, all.
function makeButtons(last) {
  const at = Math.min(state.step, last);
  const button = (key, step, off) =>
    make(
      "button",
      {
        type: "button",
        class: key === "begin" && at === last ? "small strong" : "small",
        disabled: off,
        "data-focus": `step.${key}`,
        onclick: () => {
          stop();
          go(step);
        },
      },
      word(`backward.${key}`),
    );
  const playing = player.timer !== null;
  return make(
    "div",
    { class: "stepper", role: "group", "aria-label": word("backward.steps") },
    button("begin", 0, at === 0),
    button("undo", at - 1, at === 0),
    make(
      "button",
      {
        type: "button",
        class: at === last ? "small" : "small strong",
        disabled: at === last,
        "data-focus": "step.next",
        onclick: () => {
          stop();
          go(at + 1);
        },
      },
      word("backward.next"),
    ),
    make(
      "button",
      {
        type: "button",
        class: "small",
        "data-focus": "step.play",
        "aria-pressed": String(playing),
        onclick: () => (playing ? stopAndDraw() : play(last)),
      },
      word(playing ? "backward.pause" : "backward.play"),
    ),
    button("all", last, at === last),
    make("span", { class: "step-count" }, word("backward.count", { step: at, last })),
  );
}

function go(step) {
  change({ step: Math.max(step, 0) });
  announce([...document.querySelectorAll(".step-sentence")].map((sentence) => sentence.textContent).join(" "));
}

function stop() {
  clearInterval(player.timer);
  player.timer = null;
}

function stopAndDraw() {
  stop();
  change({});
}

function play(last) {
  player.timer = setInterval(() => {
    if (state.step >= last) return stopAndDraw();
    if (state.step + 1 >= last) stop();
    return change({ step: state.step + 1 });
  }, 1100);
  change({ step: state.step >= last ? 0 : state.step + 1 });
}

function drawOneWalk(view, side) {
  const steps = stepsOf(view);
  const at = Math.min(state.step, steps.length - 1);
  const done = steps.slice(0, at + 1);
  return make(
    "div",
    { class: "column" },
    make("h3", {}, titleOf(view)),
    make(
      "p",
      { class: "step-sentence" },
      make("strong", {}, `${nameStep(steps[at])}: `),
      sayStep(view, steps[at], state.lossOf === "all"),
    ),
    makeFlow(view, steps, done, side),
    makeHeads(view, done),
    at === steps.length - 1 ? makeInputs(view) : make("p", { class: "note" }, word("backward.inputs_later")),
  );
}

// Rows: values of the stream from the top down. Columns: tokens. Colour: the norm of the gradient of that vector.
function makeFlow(view, steps, done, side) {
  const rows = steps.flatMap((step) => step.rows);
  const reached = done.flatMap((step) => step.rows).length;
  const T = view.ids.length;
  const norms = rows.map((row) => view.norms(row.name, "gradient"));
  const scale = scaleOfPowers(largest(norms.flatMap((row) => [...row])));
  const map = makeHeatmap({
    key: `backward.${view.key}`,
    label: word("backward.map", { model: titleOf(view) }),
    rows: rows.length,
    columns: T,
    scale,
    value: (r, c) => (r < reached ? norms[r][c] : NaN),
    describe: (r, c) =>
      r < reached
        ? word("backward.cell", {
            row: rows[r].label,
            name: rows[r].name,
            token: view.labels[c],
            norm: writeNumber(norms[r][c]),
          })
        : word("backward.not_yet", { row: rows[r].label }),
    choose: (r) => showTensor(rows[r].name),
    rowLabels: rows.map((row) => row.label),
    columnLabels: view.labels,
    marked: view.position,
    cell: cellSize(T, { side, margin: 120, least: 8, most: 26 }),
    tall: 19,
    hint: word("backward.hint"),
  });
  return make("div", {}, map, makeLegend(scale, word("backward.legend")));
}

export function showTensor(name) {
  change({ tensor: name, slice: 0, goTo: "inspect" });
}

// How much of the gradient each head of each block received: the norm of d(heads), head by head.
function makeHeads(view, done) {
  const attended = done.filter((step) => step.part === "attn").map((step) => step.block);
  const heads = view.model.config.n_head;
  const shares = attended.map((block) => sharesOfHeads(view, block, heads));
  const rows = attended.map((block, r) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, word("block.one", { i: block })),
      shares[r].map((share) => {
        const bar = make("span", { class: "bar" });
        bar.style.width = `${(100 * (share || 0)) / (largest(shares[r]) || 1)}%`;
        return make(
          "td",
          {},
          make("span", { class: "bar-room" }, bar),
          make("small", {}, Number.isFinite(share) ? writeNumber(share) : "–"),
        );
      }),
    ),
  );
  if (!rows.length) return make("p", { class: "note" }, word("backward.heads_later"));
  const numbers = Array.from({ length: heads }, (_, h) =>
    make("th", { scope: "col" }, word("head.one", { h })),
  );
  return make(
    "div",
    {},
    make("h4", {}, word("backward.heads")),
    make(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": word("backward.heads") },
      make(
        "table",
        { class: "heads" },
        make("thead", {}, make("tr", {}, make("td", {}), numbers)),
        make("tbody", {}, rows),
      ),
    ),
  );
}

function sharesOfHeads(view, block, heads) {
  const gradient = view.pass.values.get(`h.${block}.attn.heads`)?.gradient;
  if (!gradient) return Array(heads).fill(NaN);
  const C = gradient.shape[gradient.shape.length - 1];
  const width = C / heads;
  const sums = Array(heads).fill(0);
  gradient.data.forEach((number, at) => {
    sums[Math.floor((at % C) / width)] += number * number;
  });
  return sums.map(Math.sqrt);
}

// Which token of the text the loss depends on: the norm of dx at the bottom.
function makeInputs(view) {
  const norms = view.norms("x", "gradient");
  const most = largest(norms) || 1;
  const order = norms
    .map((_, i) => i)
    .sort((a, b) => norms[b] - norms[a])
    .slice(0, 3)
    .filter((i) => norms[i] > 0);
  const after = norms.slice(view.position + 1).every((norm) => norm === 0) && view.position + 1 < norms.length;
  const chips = norms.map((norm, i) => {
    const bar = make("span", { class: "bar" });
    bar.style.width = `${(100 * norm) / most}%`;
    return make(
      "li",
      { class: norm === 0 ? "nothing" : "", title: writeNumber(norm) },
      make("span", { class: "token-text" }, view.labels[i]),
      make("span", { class: "bar-room" }, bar),
      make("small", {}, writeNumber(norm)),
    );
  });
  const names = order.map((i) => `“${view.labels[i]}” (${writeNumber(norms[i])})`).join(", ");
  return make(
    "div",
    {},
    make("h4", {}, word("backward.inputs")),
    make("p", {}, word("backward.most", { tokens: names }), " ", after ? word("backward.after") : ""),
    make("ol", { class: "influence", "aria-label": word("backward.inputs") }, chips),
  );
}
