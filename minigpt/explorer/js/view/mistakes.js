// A planted mistake: which gradients it changes, and how a finite difference finds it.

import { mistakes } from "../session.js";
import { normOf } from "../vectors.js";
import { checkNumber, makeCheckCard } from "./check.js";
import { makeColumns, titleOf } from "./columns.js";
import { makeTable } from "./lists.js";
import { make, makeButton, makeGroups, makeMenu, writeNumber } from "./make.js";
import { change, state } from "./state.js";
import { inLanguage, word } from "./words.js";

const FIRST = 8; // changes that are shown until all are asked for
const SAME = 1e-9; // gradients that are nearer than this, relative to the right one, are the same

// { name, where, isWrong, op, title: {en, ko}, says: {en, ko} }, once the page has named them
export const namedMistakes = [];

// words: { name: { op, title, says } }
export function nameMistakes(words) {
  namedMistakes.push(...mistakes.map((one) => ({ ...one, ...words[one.name] })));
}

export function drawMistakes(host, views) {
  if (views.some((view) => view.recorded)) {
    host.replaceChildren(make("p", { class: "note" }, word("recorded.no_mistakes")));
    return;
  }
  const chosen = namedMistakes.find((one) => one.name === state.mistake);
  host.replaceChildren(makeMistakeMenu("mistake"), ...(chosen ? describe(chosen, views) : []));
}

// more: what else is chosen when a mistake is planted
export function makeMistakeMenu(id, more = {}) {
  const option = (value, label) => make("option", { value, selected: value === (state.mistake ?? "") }, label);
  const groups = makeGroups(namedMistakes, (one) => one.op, (one) => option(one.name, inLanguage(one.title)));
  const options = [option("", word("mistakes.none")), ...groups];
  const plant = (name) => change({ mistake: name || null, check: null, allChanges: false, ...(name ? more : {}) });
  return make("div", { class: "menu" }, makeMenu(id, word("mistakes.menu"), options, plant));
}

function describe(chosen, views) {
  return [
    make("p", { class: "says" }, make("code", {}, chosen.op), `: ${inLanguage(chosen.title)}.`),
    make("p", {}, inLanguage(chosen.says)),
    make("p", { class: "note" }, word(`mistakes.in_${chosen.where}`)),
    makeColumns(views, (view) => drawOneComparison(view, chosen), (view) => make("h3", {}, titleOf(view))),
  ];
}

function drawOneComparison(view, chosen) {
  const { changed, same } = compare(view, chosen);
  if (!changed.length) return make("p", {}, word("mistakes.nothing"));
  const wrong = changed.filter((one) => one.isWrong);
  const shown = changed.filter((one, i) => state.allChanges || i < FIRST || one === wrong[0]);
  const rows = shown.flatMap((one) => rowsOfChange(view, one, one === wrong[0]));
  const keys = ["mistakes.tensor", "mistakes.expose", "mistakes.ratio", "mistakes.apart"];
  const table = makeTable(word("mistakes.table"), "changes", keys.map((key) => word(key)), rows);
  const figures = { changed: changed.length, same, wrong: wrong.length, first: wrong[0]?.name };
  const all = () => change({ allChanges: true });
  const isAll = shown.length === changed.length;
  const more = isAll ? null : makeButton(word("mistakes.all", { n: changed.length }), `all.${view.key}`, all);
  return [make("p", {}, summarise(chosen, figures)), table, more];
}

function summarise(chosen, figures) {
  if (chosen.where === "backward") return word("mistakes.summary", figures);
  const which = figures.wrong ? word("mistakes.some_wrong", figures) : word("mistakes.none_wrong");
  return `${word("mistakes.summary_forward", figures)} ${which}`;
}

// A row, and below it the answer, where it was checked.
function rowsOfChange(view, one, first) {
  const badge = first ? make("span", { class: "badge" }, word("mistakes.first")) : "";
  const where = `mistakes.${view.key}.${one.name}`;
  const check = () => checkNumber(view, one.name, one.worst, where);
  const button = makeButton(word("mistakes.check"), `expose.${view.key}.${one.name}`, check, {
    "aria-label": word("mistakes.expose_one", { name: one.name }),
  });
  const row = {
    class: first ? "first-wrong" : "",
    label: make("span", {}, make("code", {}, one.name), badge),
    cells: [
      make("td", {}, button),
      numberCell("mistakes.ratio", Number.isFinite(one.ratio) ? writeNumber(one.ratio) : "–"),
      numberCell("mistakes.apart", writeNumber(one.apart)),
    ],
  };
  const card = makeCheckCard(view, where);
  return card ? [row, { class: "answer", label: card, span: 4, cells: [] }] : [row];
}

// Its title is written beside it where the table is too narrow for columns.
function numberCell(key, number) {
  return make("td", { "data-title": word(key) }, number);
}

// Every gradient with the mistake against that of the right model: activations in the order of the backward pass, then
// parameters. A mistake in the forward pass makes another model: what differs there need not be wrong.
function compare(view, chosen) {
  const changed = [];
  let same = 0;
  const order = [...view.right.values].filter(([, kept]) => kept.gradient);
  const activations = order.filter(([, kept]) => kept.kind === "activation").reverse();
  const parameters = order.filter(([, kept]) => kept.kind === "parameter").reverse();
  for (const [name, kept] of [...activations, ...parameters]) {
    const one = difference(name, kept.gradient.data, view.pass.values.get(name).gradient.data);
    if (one.apart > SAME) changed.push({ ...one, isWrong: chosen.isWrong(name) });
    else same += 1;
  }
  return { changed, same };
}

// The names of the gradients that a planted mistake makes wrong, in the order of the backward pass.
export function wrongGradients(view) {
  const chosen = namedMistakes.find((one) => one.name === view.mistake);
  return chosen ? compare(view, chosen).changed.filter((one) => one.isWrong).map((one) => one.name) : [];
}

// worst: the place of the number that is furthest from the right one
function difference(name, right, wrong) {
  const apart = wrong.map((number, i) => number - right[i]);
  let worst = 0;
  apart.forEach((number, i) => {
    if (Math.abs(number) > Math.abs(apart[worst])) worst = i;
  });
  const size = normOf(right);
  return { name, worst, ratio: normOf(wrong) / size, apart: size ? normOf(apart) / size : normOf(apart) };
}
