// Every tensor of the pass by its name: values and gradients side by side.

import { sizeOf } from "../tensor.js";
import { normOf } from "../vectors.js";
import { make, makeButton, makeGroups, makeMenu, makeNumberChoice, writeNumber, writeShape } from "./make.js";
import { largest, scaleSigned } from "./colours.js";
import { makeColumns } from "./columns.js";
import { makeCheckHint, makeCheckedMap, placeOf } from "./check.js";
import { change, state } from "./state.js";
import { word } from "./words.js";

export function drawInspect(host, views) {
  const { values } = views[0].pass;
  const names = [...values.keys()];
  const name = values.has(state.tensor) ? state.tensor : (names.find((one) => one.endsWith("attn.qkv")) ?? names[0]);
  host.replaceChildren(
    makeTensorMenu(values, names, name),
    makeColumns(views, (view) => drawOneTensor(view, name)),
    makeCheckHint("inspect", views),
  );
}

// One menu of all names, in groups; and buttons for the one before and the one after.
function makeTensorMenu(values, names, name) {
  const option = (one) => {
    const { shape, value } = values.get(one);
    return make("option", { value: one, selected: one === name }, `${one} ${writeShape(shape ?? value.shape)}`);
  };
  const options = makeGroups(names, (one) => sayGroup(one, values.get(one)), option);
  const near = (by) => names.at((names.indexOf(name) + by) % names.length);
  return make(
    "div",
    { class: "menu" },
    makeMenu("tensor", word("inspect.menu"), options, chooseTensor),
    makeButton(word("inspect.previous"), "inspect.previous", () => chooseTensor(near(-1))),
    makeButton(word("inspect.following"), "inspect.following", () => chooseTensor(near(1))),
  );
}

function sayGroup(name, { kind }) {
  const block = /^h\.(\d+)\./.exec(name);
  return `${word(`inspect.${kind}s`)} · ${block ? word("block.one", { i: block[1] }) : word("inspect.outside")}`;
}

function chooseTensor(name) {
  change({ tensor: name, slice: 0, check: null });
}

function drawOneTensor(view, name) {
  const tensor = view.pass.values.get(name);
  if (!tensor) return make("p", {}, word("inspect.missing_here", { name }));
  const { value, gradient } = tensor;
  if (!value) return make("p", {}, word("recorded.not_kept"));
  const slices = value.shape.length === 3 ? value.shape[0] : 1;
  const slice = Math.min(state.slice, slices - 1);
  const figures = word("inspect.figures", {
    shape: writeShape(value.shape),
    norm: writeNumber(normOf(value.data.filter(Number.isFinite))),
    gradient: gradient ? writeNumber(normOf(gradient.data)) : "–",
  });
  const sayHead = (h) => word("head.one", { h });
  const choose = (h) => change({ slice: h });
  return [
    make("p", {}, make("code", {}, name), `: ${describeTensor(name)} · `, figures),
    slices > 1 ? makeNumberChoice(word("head.label"), slices, sayHead, slice, choose, `slice.${view.key}`) : null,
    make("div", { class: "pair" }, makeHalf(view, name, slice, "value"), makeHalf(view, name, slice, "gradient")),
  ];
}

// A few words on a tensor, by the last part of its name: h.3.attn.c_proj.weight is told by attn.c_proj, and weight.
function describeTensor(name) {
  const parts = name.split(".").filter((part) => part !== "h" && !/^\d+$/.test(part));
  const which = ["weight", "bias"].includes(parts.at(-1)) ? parts.pop() : null;
  const key = parts.join("_");
  if (!which) return word(`tensor.${key}`);
  return word(`tensor.${which}_${key.startsWith("ln_") ? "ln" : key}`);
}

// How the numbers lie in the picture: a matrix as it is, a vector in rows of 64. at: null where there is no number
function gridOf(shape, slice) {
  const columns = shape.length === 1 ? Math.min(shape[0], 64) : shape.at(-1);
  const rows = shape.length === 1 ? Math.ceil(shape[0] / columns) : shape.at(-2);
  const at = (r, c) => (slice * rows + r) * columns + c;
  return { rows, columns, at: (r, c) => (at(r, c) < sizeOf(shape) ? at(r, c) : null) };
}

// which: "value" | "gradient"; null where there is none
function makeHalf(view, name, slice, which) {
  const { value, gradient } = view.pass.values.get(name);
  const tensor = which === "value" ? value : gradient;
  if (!tensor) return null;
  const { rows, columns, at } = gridOf(value.shape, slice);
  const overTokens = value.shape.length > 1 && rows === view.ids.length;
  const describe = (r, c) => {
    const index = at(r, c);
    if (index === null) return word("inspect.nothing");
    return word(overTokens ? "inspect.cell_token" : "inspect.cell", {
      name,
      place: placeOf(index, value.shape).join(", "),
      value: writeNumber(value.data[index]),
      gradient: writeNumber(gradient?.data[index]),
      token: view.labels[r],
    });
  };
  return makeCheckedMap(view, name, at, {
    key: `inspect.${which}.${view.key}`,
    title: word(`inspect.${which}`),
    label: `${name}, ${word(`inspect.${which}`)}`,
    rows,
    columns,
    scale: scaleSigned(largest(tensor.data)),
    value: (r, c) => (at(r, c) === null ? NaN : tensor.data[at(r, c)]),
    describe,
    rowLabels: overTokens ? view.labels : null,
    cell: { side: 2, margin: overTokens ? 84 : 0, least: 3, most: 14 },
    tall: Math.max(Math.min(Math.floor(360 / rows), 14), 3),
    legend: word(`inspect.legend_${which}`),
  });
}
