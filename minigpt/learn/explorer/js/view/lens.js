// What the model would say next, after the embedding and after each block.

import { IGNORED } from "../ops/cross_entropy.js";
import { make, makeBar, makeButton, makeTable, writePercent } from "./make.js";
import { makeLegend, scaleUp } from "./colours.js";
import { cellSize, makeHeatmap } from "./heatmap.js";
import { makeTitle, streamOf } from "./steps.js";
import { change } from "./state.js";
import { choosePosition } from "./tokens.js";
import { word } from "./words.js";

export function drawLens(host, views) {
  host.replaceChildren(
    make(
      "div",
      { class: "columns" },
      views.map((view) => drawOneLens(view, views.length)),
    ),
  );
}

function drawOneLens(view, side) {
  const labels = streamOf(view).map((row) => row.label);
  return make(
    "div",
    { class: "column" },
    makeTitle(view),
    make("p", { class: "context" }, word("lens.after", { text: before(view) })),
    make("div", { class: "pair" }, makeBars(view, labels.length - 1), makeLayers(view, labels)),
    makeWholeText(view, labels, side),
  );
}

function before(view) {
  const from = Math.max(view.position - 7, 0);
  const to = view.bothSides ? view.position + 8 : view.position + 1;
  const sign = view.bothSides ? " " : "";
  return (from ? "… " : "") + view.labels.slice(from, to).join(sign);
}

// The most probable words as bars; a click asks for that word.
function makeBars(view, top) {
  const best = view.best(top, view.position, 8);
  if (!best.some(([id]) => id === view.target))
    best.push([view.target, view.chance(top, view.position, view.target)]);
  const lines = best.map(([id, p]) => makeWordBar(view, id, p, p === null ? 0 : p / best[0][1]));
  return make(
    "div",
    { class: "half" },
    make("h4", {}, word("lens.bars")),
    make("ol", { class: "bars" }, lines),
    view.targetGuessed ? make("p", { class: "note" }, word("lens.guessed")) : null,
  );
}

function makeWordBar(view, id, p, part) {
  const right = id === view.target;
  const percent = writeChance(p);
  const name = make("span", { class: "word-name" }, `${right ? "◎ " : ""}${view.show(id)}`);
  const ask = () => view.recorded || change({ target: id, lossOf: "one", check: null });
  const button = makeButton(name, `bar.${view.key}.${id}`, ask, {
    class: "word",
    title: view.recorded ? null : word("lens.ask"),
    "aria-label": word(right ? "lens.bar_target" : "lens.bar", { word: view.show(id), p: percent }),
    "aria-disabled": view.recorded ? "true" : null,
  });
  button.append(makeBar(part), make("span", { class: "word-p" }, percent));
  return make("li", { class: right ? "right" : "" }, button);
}

function writeChance(p) {
  return p === null ? word("recorded.not_among") : writePercent(p);
}

// One row for each layer: its three best words, and the probability of the right one.
function makeLayers(view, labels) {
  const rows = labels.map((label, layer) => {
    const asked = writeChance(view.chance(layer, view.position, view.target));
    const best = view.best(layer, view.position, 3).map(([id, p]) => wordCell(view, id, p));
    return { label, cells: [make("td", { class: "right" }, asked), ...best] };
  });
  const best = ["lens.first", "lens.second", "lens.third"].map((key) => word(key));
  const titles = [word("lens.layer"), `◎ ${view.show(view.target)}`, ...best];
  const table = makeTable(word("lens.table"), "layers", titles, rows.reverse());
  return make("div", { class: "half" }, make("h4", {}, word("lens.table")), table);
}

function wordCell(view, id, p) {
  const name = make("span", { class: "token-text" }, view.show(id));
  return make(
    "td",
    { class: id === view.target ? "right" : "" },
    name,
    " ",
    make("small", {}, writePercent(p)),
  );
}

// Layers against tokens: how probable the next token of the text is, everywhere.
function makeWholeText(view, labels, side) {
  const T = view.ids.length;
  if (T < 2) return null;
  const scale = scaleUp(1);
  const layer = (r) => labels.length - 1 - r;
  const ofText = (t) => (view.bothSides ? view.targets[t] : (view.ids[t + 1] ?? IGNORED));
  const next = (t) => (t === view.position ? view.target : ofText(t));
  const value = (r, t) => (next(t) < 0 ? NaN : (view.chance(layer(r), t, next(t)) ?? 0));
  const describe = (r, t) =>
    next(t) < 0
      ? word("lens.no_next")
      : word("lens.cell", {
          layer: labels[layer(r)],
          token: view.labels[t],
          next: view.show(next(t)),
          p: writeChance(view.chance(layer(r), t, next(t))),
        });
  const map = makeHeatmap({
    key: `lens.${view.key}`,
    label: word("lens.map"),
    rows: labels.length,
    columns: T,
    value,
    scale,
    describe,
    choose: (r, t) => choosePosition(t),
    act: "token",
    rowLabels: [...labels].reverse(),
    columnLabels: view.labels,
    marked: view.position,
    cell: cellSize(T, { side, margin: 110, least: 8, most: 26 }),
    tall: 20,
  });
  return make("div", {}, make("h4", {}, word("lens.map")), map, makeLegend(scale, word("lens.legend")));
}
