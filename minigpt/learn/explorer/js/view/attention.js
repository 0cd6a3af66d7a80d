// Every head of a block: where each token looks, and which of these looks the loss wants changed.

import { largestFirst } from "../vectors.js";
import { make, makeChoice, writeNumber, writePercent } from "./make.js";
import { largest, makeLegend, scaleSigned, scaleUp } from "./colours.js";
import { cellSize, makeHeatmap } from "./heatmap.js";
import { checkNumber, makeCheckCard, makeCheckHint } from "./check.js";
import { labelAt } from "./labels.js";
import { makeTitle } from "./steps.js";
import { change, state } from "./state.js";
import { word } from "./words.js";

export function drawAttention(host, views) {
  const blocks = Math.min(...views.map((view) => view.model.config.n_layer));
  const heads = Math.min(...views.map((view) => view.model.config.n_head));
  const block = Math.min(state.block, blocks - 1);
  const head = Math.min(state.head, heads - 1);
  const numbers = (count, key) =>
    Array.from({ length: count }, (_, i) => ({ value: i, label: String(i), title: word(key, { i, h: i }) }));
  host.replaceChildren(
    makeChoice(
      word("block.label"),
      numbers(blocks, "block.one"),
      block,
      (chosen) => change({ block: chosen }),
      "block",
    ),
    makeChoice(
      word("head.label"),
      numbers(heads, "head.one"),
      head,
      (chosen) => change({ head: chosen }),
      "head",
    ),
    make(
      "div",
      { class: "columns" },
      views.map((view) => drawOneBlock(view, block, head, views.length)),
    ),
    ...(views.some((view) => view.mistake) ? [make("p", { class: "note" }, word("mistakes.sentences"))] : []),
    makeCheckHint("attention", views),
  );
}

function drawOneBlock(view, block, head, side) {
  const kept = view.pass.values.get(`h.${block}.attn.p`);
  if (!kept?.value) return make("p", { class: "column" }, word("recorded.not_kept"));
  const T = view.ids.length;
  const at = (h) => ({
    p: kept.value.data.subarray(h * T * T, (h + 1) * T * T),
    dp: kept.gradient?.data.subarray(h * T * T, (h + 1) * T * T),
  });
  const thumbs = Array.from({ length: view.model.config.n_head }, (_, h) =>
    makeThumb(view, at(h).p, T, h, head),
  );
  return make(
    "div",
    { class: "column" },
    makeTitle(view),
    make(
      "div",
      { class: "thumbs", role: "group", "aria-label": word("attention.heads", { i: block }) },
      thumbs,
    ),
    make(
      "div",
      { class: "pair" },
      ["p", "dp"]
        .filter((which) => at(head)[which])
        .map((which) => makeHead(view, at(head), which, block, head, side)),
    ),
    makeLooks(view, at(head), T),
  );
}

// A small picture of each head, to choose by.
function makeThumb(view, p, T, h, head) {
  const canvas = make("canvas", { width: T, height: T, "aria-hidden": "true", class: "thumb" });
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(T, T);
  const scale = scaleUp(1);
  for (let at = 0; at < T * T; at++) {
    if (at % T > Math.floor(at / T) && p[at] === 0) continue;
    image.data.set(scale.colour(p[at]), 4 * at);
    image.data[4 * at + 3] = 255;
  }
  pen.putImageData(image, 0, 0);
  return make(
    "button",
    {
      type: "button",
      class: "thumb-button",
      "aria-pressed": String(h === head),
      "data-focus": `thumb.${view.key}.${h}`,
      onclick: () => change({ head: h }),
    },
    canvas,
    make("span", {}, word("head.one", { h })),
  );
}

function makeHead(view, numbers, which, block, head, side) {
  const T = view.ids.length;
  const data = numbers[which];
  const scale = which === "p" ? scaleUp(1) : scaleSigned(largest(data));
  const name = `h.${block}.attn.p`;
  const hidden = (r, c) => c > r && numbers.p[r * T + c] === 0;
  const where = `attention.${which}.${view.key}`;
  const map = makeHeatmap({
    key: where,
    about: name,
    label: word(`attention.${which}`, { i: block, h: head }),
    rows: T,
    columns: T,
    scale,
    value: (r, c) => (hidden(r, c) ? NaN : data[r * T + c]),
    describe: (r, c) =>
      hidden(r, c)
        ? word("attention.hidden", { query: view.labels[r], key: view.labels[c] })
        : `${sayCell(view, numbers, r, c)} ${whyZero(view, numbers.dp?.[r * T + c], r, block)}`.trim(),
    choose: (r, c) => hidden(r, c) || checkNumber(view, name, (head * T + r) * T + c, where),
    act: view.recorded ? "read" : "check",
    rowLabels: view.labels,
    columnLabels: view.labels,
    markedRow: view.position,
    cell: cellSize(T, { side: 2, margin: 84, most: 24, least: 4 }),
    hint: word("attention.hint"),
  });
  return make(
    "div",
    { class: "half" },
    make("h4", {}, word(`attention.${which}`, { i: block, h: head })),
    map,
    makeCheckCard(view, where),
    makeLegend(scale, word(`attention.legend_${which}`)),
  );
}

function sayCell(view, numbers, r, c) {
  const at = r * view.ids.length + c;
  return word("attention.cell", {
    query: view.labels[r],
    key: view.labels[c],
    p: writeNumber(numbers.p[at]),
    dp: writeNumber(numbers.dp?.[at] ?? null),
  });
}

// Why the loss of one prediction does not depend on a row.
function whyZero(view, dp, r, block) {
  if (dp !== 0 || state.lossOf === "all") return "";
  if (r > view.position) return word("attention.row_after");
  return r < view.position && block === view.model.config.n_layer - 1 ? word("attention.row_last") : "";
}

// The same in one sentence: where the chosen token looks most in this head.
function makeLooks(view, { p }, T) {
  const row = p.subarray(view.position * T, (view.position + 1) * T);
  const order = largestFirst(row, 3).filter((i) => row[i] > 0.005);
  const list = order.map((i) => `${labelAt(view, i)} ${writePercent(row[i])}`).join(", ");
  return make("p", {}, word("attention.looks", { token: view.labels[view.position], list }));
}
