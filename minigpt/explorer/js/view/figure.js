// The drawing of one model: its canvas, and over it a button for each box and each token, which keys and readers reach.

import { makeLegend } from "./colours.js";
import { titleOf } from "./columns.js";
import { makeScene, sizeCanvas } from "./drawing.js";
import { make } from "./make.js";
import { wrongGradients } from "./mistakes.js";
import { openInPlace } from "./panels.js";
import { TURNED_BELOW, belongsTo, layOut, middleOf, partsOf } from "./parts.js";
import { stopPlaying } from "./player.js";
import { namePart } from "./said.js";
import { change } from "./state.js";
import { makeTokenButtons } from "./tokens.js";
import { word } from "./words.js";

const SIDE = 250; // pixels of what stands beside a wide drawing
const PANEL_OF = { attn: "attention", head: "lens" }; // what a click on a box opens; of the others: the tensors
const LARGEST = 13; // pixels of the letters in a box

// width: of the stage; read(k): the cursor is on part k; null: it has left
// -> { view, scene, canvas, buttons, answer, wrong: of each part, the names of wrong gradients, figure: the whole }
export function makeModel(view, width, read) {
  const parts = partsOf(view);
  const isStacked = width - SIDE < TURNED_BELOW;
  const shape = layOut(parts, view.ids.length, isStacked ? width : width - SIDE);
  const scene = makeScene(view, parts, shape);
  const canvas = make("canvas", { "aria-hidden": "true" });
  sizeCanvas(canvas, scene);
  const names = wrongGradients(view);
  const wrong = parts.map((part) => names.filter((name) => belongsTo(part, name)));
  const buttons = parts.map((_, k) => makePartButton(view, scene, k, read));
  const answer = view.pass.loss === null ? null : make("div", { class: "answer" });
  const figure = make(
    "div",
    { class: `model-drawing${isStacked ? " stacked" : ""}${shape.turned ? " turned" : ""}` },
    make("div", { class: "scroll", "data-scrolls": "" }, makeSheet(view, scene, canvas, buttons)),
    make("div", { class: "side" }, answer, makeLegends(scene)),
  );
  return { view, scene, canvas, buttons, answer, wrong, figure };
}

function makeSheet(view, scene, canvas, buttons) {
  const { shape } = scene;
  const kindOfNorm = make("small", {}, word(view.model.pre_norm ? "stage.pre" : "stage.post"));
  const tokens = makeTokenButtons(view, "stage.token.");
  tokens.forEach((button, t) => placeToken(button, shape, t, t === view.position));
  const sheet = make(
    "div",
    { class: "sheet" },
    canvas,
    make("strong", { class: "stage-title" }, titleOf(view), kindOfNorm),
    makeBlockNames(scene),
    make("div", { class: "stage-tokens", role: "group", "aria-label": word("tokens.label") }, tokens),
    make("div", { role: "group", "aria-label": word("stage.model", { model: titleOf(view) }) }, buttons),
  );
  sheet.style.cssText = `width:${canvas.style.width};height:${canvas.style.height}`;
  return sheet;
}

function makeLegends({ scales }) {
  return ["value", "gradient"]
    .filter((which) => which in scales)
    .map((which) => makeLegend(scales[which], word(`stage.legend_${which}`)));
}

// The name under which the button of a part keeps the focus.
export function focusOfPart(view, part) {
  return `stage.${view.key}.${part.name}`;
}

function makePartButton(view, scene, k, read) {
  const { shape } = scene;
  const part = scene.parts[k];
  const { from, to } = shape.places[k];
  const label = make("span", { class: "part-name", "aria-hidden": "true" }, word(`stage.short_${part.kind}`));
  const about = {
    type: "button",
    class: `part ${part.kind}`,
    "data-focus": focusOfPart(view, part),
    onclick: () => openPart(view, part),
    onpointerenter: () => read(k),
    onpointerleave: () => read(null),
  };
  const button = make("button", about, label);
  place(button, shape, from, to, 0, shape.across);
  const isBox = !part.onStream || (shape.turned && part.kind !== "sum" && part.kind !== "norm");
  const middle = isBox ? shape.branch : shape.stream;
  const half = shape.turned && isBox ? shape.branch - 3 : 12;
  place(label, shape, 1, to - from - 1, middle - half, middle + half);
  fitLetters(label, shape.turned ? 2 * half : to - from);
  return button;
}

// Letters as large as the box has room for; those of Hangul are wider.
function fitLetters(label, room) {
  const wide = /[가-힣]/.test(label.textContent) ? 1.05 : 0.64;
  label.style.fontSize = `${Math.min(LARGEST, (room - 7) / (wide * label.textContent.length))}px`;
}

function makeBlockNames({ parts, shape }) {
  const first = [...parts.keys()].filter((k) => parts[k].block !== null && parts[k].block !== parts[k - 1].block);
  return first.map((k) => {
    const label = word("block.one", { i: parts[k].block });
    const name = make("span", { class: "block-name", "aria-hidden": "true" }, label);
    const { from } = shape.places[k];
    if (shape.turned) place(name, shape, from - 15, from, 6, shape.lane);
    else place(name, shape, from, from + 80, 0, 16);
    return name;
  });
}

// The name of a token, before the way begins; where there are many, each second or third is written.
function placeToken(button, shape, t, isChosen) {
  const every = Math.ceil(11 / shape.row);
  const half = (isChosen ? Math.max(shape.row, 12) : shape.row) / 2;
  const middle = middleOf(shape, t);
  place(button, shape, 0, shape.start - 6, middle - half, middle + half);
  if (!isChosen && t % every) button.textContent = "";
  button.style.fontSize = `${Math.min(Math.max(shape.row * every - 3, 9), 14)}px`;
}

// Put an element from ... to along the way, and first ... second across it.
function place(element, shape, from, to, first, second) {
  const [left, width] = shape.turned ? [first, second - first] : [from, to - from];
  const [top, height] = shape.turned ? [from, to - from] : [first, second - first];
  element.style.cssText = `left:${left}px;top:${top}px;width:${width}px;height:${height}px`;
}

function openPart(view, part) {
  stopPlaying();
  const panel = PANEL_OF[part.kind] ?? "inspect";
  openInPlace(panel, namePart(part), focusOfPart(view, part));
  if (panel === "attention") change({ block: part.block });
  else if (panel === "inspect") change({ tensor: part.name, slice: 0 });
  else change({});
}
