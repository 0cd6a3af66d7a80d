// Every tensor of the pass by its name: values and gradients side by side.

import { sizeOf } from "../tensor.js";
import { normOf } from "../vectors.js";
import { make, makeButton, makeChoice, makeMenu, writeNumber, writeShape } from "./make.js";
import { largest, makeLegend, scaleSigned } from "./colours.js";
import { cellSize, makeHeatmap } from "./heatmap.js";
import { checkNumber, makeCheckCard, makeCheckHint, placeOf } from "./check.js";
import { makeTitle } from "./steps.js";
import { change, state } from "./state.js";
import { word } from "./words.js";

export function drawInspect(host, views) {
  const view = views[0];
  const names = [...view.pass.values.keys()];
  const name = names.includes(state.tensor)
    ? state.tensor
    : (names.find((one) => one.endsWith("attn.qkv")) ?? names[0]);
  host.replaceChildren(
    makeTensorMenu(view, names, name),
    make(
      "div",
      { class: "columns" },
      views.map((one) => drawOneTensor(one, name, views.length)),
    ),
    makeCheckHint("inspect", views),
  );
}

// One menu of all names, in groups; and buttons for the one before and the one after.
function makeTensorMenu(view, names, name) {
  const groups = new Map();
  for (const one of names) {
    const kept = view.pass.values.get(one);
    const block = /^h\.(\d+)\./.exec(one);
    const where = block ? word("block.one", { i: block[1] }) : word("inspect.outside");
    const group = `${word(`inspect.${kept.kind}s`)} · ${where}`;
    const label = `${one} ${writeShape(kept.shape ?? kept.value.shape)}`;
    if (!groups.has(group)) groups.set(group, []);
    groups.get(group).push(make("option", { value: one, selected: one === name }, label));
  }
  const options = [...groups].map(([label, members]) => make("optgroup", { label }, members));
  const near = (by) => names[(names.indexOf(name) + by + names.length) % names.length];
  const button = (key, by) =>
    makeButton(word(`inspect.${key}`), `inspect.${key}`, () => chooseTensor(near(by)));
  const menu = makeMenu("tensor", word("inspect.menu"), options, chooseTensor);
  return make("div", { class: "menu" }, menu, button("previous", -1), button("following", 1));
}

function chooseTensor(name) {
  change({ tensor: name, slice: 0, check: null });
}

function drawOneTensor(view, name, side) {
  const kept = view.pass.values.get(name);
  const title = makeTitle(view);
  if (!kept)
    return make("div", { class: "column" }, title, make("p", {}, word("inspect.missing_here", { name })));
  const { value, gradient } = kept;
  if (!value) return make("p", { class: "column" }, word("recorded.not_kept"));
  const slices = value.shape.length === 3 ? value.shape[0] : 1;
  const slice = Math.min(state.slice, slices - 1);
  const grid = gridOf(value.shape, slice);
  const figures = word("inspect.figures", {
    shape: writeShape(value.shape),
    norm: writeNumber(normOf(finite(value.data))),
    gradient: gradient ? writeNumber(normOf(gradient.data)) : "–",
  });
  const heads = Array.from({ length: slices }, (_, h) => ({
    value: h,
    label: String(h),
    title: word("head.one", { h }),
  }));
  return make(
    "div",
    { class: "column" },
    title,
    make("p", {}, make("code", {}, name), `: ${describeTensor(name)} · `, figures),
    slices > 1
      ? makeChoice(word("head.label"), heads, slice, (chosen) => change({ slice: chosen }), `slice.${view.key}`)
      : null,
    make(
      "div",
      { class: "pair" },
      makeHalf(view, name, value, grid, "value", side),
      gradient ? makeHalf(view, name, gradient, grid, "gradient", side) : null,
    ),
  );
}

// A few words on a tensor, by the last part of its name: h.3.attn.c_proj.weight is told by attn.c_proj, and weight.
function describeTensor(name) {
  const parts = name.split(".").filter((part) => part !== "h" && !/^\d+$/.test(part));
  const which = ["weight", "bias"].includes(parts.at(-1)) ? parts.pop() : null;
  const key = parts.join("_");
  if (!which) return word(`tensor.${key}`);
  return word(`tensor.${which}_${key.startsWith("ln_") ? "ln" : key}`);
}

function finite(numbers) {
  return numbers.map((number) => (Number.isFinite(number) ? number : 0));
}

// How the numbers lie in the picture: a matrix as it is, a vector in rows of 64.
function gridOf(shape, slice) {
  const columns = shape.length === 1 ? Math.min(shape[0], 64) : shape[shape.length - 1];
  const rows = shape.length === 1 ? Math.ceil(shape[0] / columns) : shape[shape.length - 2];
  const start = slice * rows * columns;
  const size = sizeOf(shape);
  return { rows, columns, at: (r, c) => (start + r * columns + c < size ? start + r * columns + c : null) };
}

function makeHalf(view, name, tensor, grid, which, side) {
  const { value, gradient } = view.pass.values.get(name);
  const scale = scaleSigned(largest(tensor.data));
  const overTokens = value.shape.length > 1 && grid.rows === view.ids.length;
  const describe = (r, c) => {
    const at = grid.at(r, c);
    if (at === null) return word("inspect.nothing");
    const key = overTokens ? "inspect.cell_token" : "inspect.cell";
    return word(key, {
      name,
      place: placeOf(at, value.shape).join(", "),
      value: writeNumber(value.data[at]),
      gradient: writeNumber(gradient ? gradient.data[at] : null),
      token: view.labels[r],
    });
  };
  const where = `inspect.${which}.${view.key}`;
  const map = makeHeatmap({
    key: where,
    about: name,
    label: `${name}, ${word(`inspect.${which}`)}`,
    rows: grid.rows,
    columns: grid.columns,
    scale,
    value: (r, c) => (grid.at(r, c) === null ? NaN : tensor.data[grid.at(r, c)]),
    describe,
    choose: (r, c) => (grid.at(r, c) === null ? null : checkNumber(view, name, grid.at(r, c), where)),
    act: view.recorded ? "read" : "check",
    rowLabels: overTokens ? view.labels : null,
    cell: cellSize(grid.columns, { side: 2, margin: overTokens ? 84 : 0, most: 14, least: 3 }),
    tall: Math.max(Math.min(Math.floor(360 / grid.rows), 14), 3),
  });
  return make(
    "div",
    { class: "half" },
    make("h4", {}, word(`inspect.${which}`)),
    map,
    makeCheckCard(view, where),
    makeLegend(scale, word(`inspect.legend_${which}`)),
  );
}
