// What the model would say next, after the embedding and after each block.

import { IGNORED } from "../ops/cross_entropy.js";
import { make, makeTitled, writePercent } from "./make.js";
import { scaleUp } from "./colours.js";
import { makeColumns } from "./columns.js";
import { makeBars, makeTable } from "./lists.js";
import { makeMap } from "./maps.js";
import { streamOf } from "./steps.js";
import { choosePosition, tokenBar } from "./tokens.js";
import { word } from "./words.js";

export function drawLens(host, views) {
  host.replaceChildren(makeColumns(views, drawOneLens));
}

function drawOneLens(view, side) {
  const labels = streamOf(view).map((row) => row.label);
  return [
    make("p", { class: "context" }, word("lens.after", { text: before(view) })),
    make("div", { class: "pair" }, makeBest(view, labels.length - 1), makeLayers(view, labels)),
    view.ids.length < 2 ? null : makeWholeText(view, labels, side),
  ];
}

function before(view) {
  const from = Math.max(view.position - 7, 0);
  const to = view.bothSides ? view.position + 8 : view.position + 1;
  const sign = view.bothSides ? " " : "";
  return (from ? "… " : "") + view.labels.slice(from, to).join(sign);
}

// The most probable words as bars; a click asks for that word.
function makeBest(view, top) {
  const best = view.best(top, view.position, 8);
  if (!best.some(([id]) => id === view.target)) best.push([view.target, view.chance(top, view.position, view.target)]);
  const items = best.map(([id, p]) => wordBar(view, id, p, (p ?? 0) / best[0][1]));
  const guessed = view.targetGuessed ? make("p", { class: "note" }, word("lens.guessed")) : null;
  return makeTitled(word("lens.bars"), "half", makeBars("bars", items), guessed);
}

function wordBar(view, id, p, part) {
  const number = writeChance(p);
  const key = id === view.target ? "lens.bar_target" : "lens.bar";
  return tokenBar(view, id, "bar", { part, number, label: word(key, { word: view.show(id), p: number }) });
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
  return makeTitled(word("lens.table"), "half", table);
}

function wordCell(view, id, p) {
  const name = make("span", { class: "token-text" }, view.show(id));
  return make("td", { class: id === view.target ? "right" : "" }, name, " ", make("small", {}, writePercent(p)));
}

// Layers against tokens: how probable the next token of the text is, everywhere.
function makeWholeText(view, labels, side) {
  const fromTop = [...labels].reverse();
  const ofText = (t) => (view.bothSides ? view.targets[t] : (view.ids[t + 1] ?? IGNORED));
  const next = (t) => (t === view.position ? view.target : ofText(t));
  const chance = (r, t) => view.chance(labels.length - 1 - r, t, next(t));
  const sayCell = (r, t) => {
    if (next(t) < 0) return word("lens.no_next");
    const p = writeChance(chance(r, t));
    return word("lens.cell", { layer: fromTop[r], token: view.labels[t], next: view.show(next(t)), p });
  };
  return makeMap({
    key: `lens.${view.key}`,
    title: word("lens.map"),
    rows: labels.length,
    columns: view.ids.length,
    value: (r, t) => (next(t) < 0 ? NaN : (chance(r, t) ?? 0)),
    scale: scaleUp(1),
    describe: sayCell,
    choose: (r, t) => choosePosition(t),
    act: "token",
    rowLabels: fromTop,
    columnLabels: view.labels,
    marked: view.position,
    cell: { side, margin: 110, least: 8, most: 26 },
    tall: 20,
    legend: word("lens.legend"),
  });
}
