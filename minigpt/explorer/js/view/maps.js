// Maps of numbers: attention, gradients, weights, probabilities. Pointer, touch and arrow keys move a cursor that reads
// one cell; a click, a second touch or Enter does what the map is for.

import { announce, make, makeButton, makeTitled } from "./make.js";
import { makeLegend, styled } from "./colours.js";
import { columnWidth } from "./columns.js";
import { word } from "./words.js";

// By the map's key, so that a redrawn map keeps its cursor, and stays where it was scrolled to.
const cursors = new Map();
const scrolled = new Map();
const FONT = "11px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace";

// plan: { key, title: above the map, or none, label: of the map, if that is not its title,
//         rows, columns, value(r, c), scale, describe(r, c),
//         choose(r, c), act: what `choose` does: "check" | "open" | "token" | "read" (nothing),
//         about: what the map shows, a name, rowLabels, columnLabels, marked: a column, markedRow: a row,
//         cell: { side, margin, least, most }: pixels of a cell, see cellSize, tall: pixels of a row,
//         hint, answer: what stands below the map, legend: what the colours are, kind: class of the whole }
// -> the map with its title, the sentence of the cell under the cursor, how to use it, and its legend
export function makeMap(plan) {
  const parts = [makeBox(plan), plan.answer, makeLegend(plan.scale, plan.legend)];
  return plan.title ? makeTitled(plan.title, plan.kind, parts) : make("div", { class: plan.kind }, parts);
}

function makeBox(plan) {
  const shape = measure(plan);
  const canvas = make("canvas", { "aria-hidden": "true" });
  const cursor = make("span", { class: "map-cursor", hidden: true });
  const sheet = make("div", { class: "map-sheet" }, canvas, cursor);
  const readout = make("p", { class: "readout" }, "\u00a0");
  const hint = make("p", { class: "note map-hint" }, [plan.hint, howToUse(plan)].filter(Boolean).join(" "));
  const again = makeAgain(plan);
  const label = plan.label ?? plan.title;
  const about = { tabindex: "0", role: "application", "aria-label": label, "data-focus": plan.key };
  const box = make("div", { class: "map", ...about }, sheet);
  paint(canvas, plan, shape);
  sheet.style.width = `${shape.width}px`;
  sheet.style.height = `${shape.height}px`;
  const map = { plan, shape, box, cursor, readout, hint, again, tapped: null };
  listen(map);
  const kept = cursorOf(plan);
  if (kept) {
    point(map, kept.r, kept.c, false);
  } else {
    scrolled.delete(plan.key);
  }
  queueMicrotask(() => settle(map)); // when it stands in the page
  return make("div", { class: "map-with-readout" }, box, readout, again, hint);
}

// Where the reader was, if this map still shows the same; or null.
function cursorOf(plan) {
  const kept = cursors.get(plan.key);
  return kept && kept.about === plan.about && kept.r < plan.rows && kept.c < plan.columns ? kept : null;
}

// No keys on a screen that is only touched, and no tapping with a mouse.
function howToUse(plan) {
  const isTouchedOnly = matchMedia("(hover: none)").matches;
  return word(`map.${isTouchedOnly ? "touch" : "keys"}_${plan.act}`);
}

// After a first touch: the button that does what a second one does. It needs no sure finger on a small cell.
function makeAgain(plan) {
  const chooseAgain = () => plan.choose(cursors.get(plan.key).r, cursors.get(plan.key).c);
  const button = makeButton(word(`map.button_${plan.act}`), null, chooseAgain, { class: "small strong" });
  return make("p", { class: "map-again", hidden: true }, button, " ", word("map.again"));
}

function settle({ plan, box, hint }) {
  const [left, top] = scrolled.get(plan.key) ?? [0, 0];
  box.scrollLeft = left;
  box.scrollTop = top;
  box.addEventListener("scroll", () => scrolled.set(plan.key, [box.scrollLeft, box.scrollTop]));
  const scrolls = box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1;
  if (scrolls) hint.prepend(make("span", { class: "map-scrolls" }, word("map.scrolls")), " ");
}

function measure(plan) {
  const cell = cellSize(plan.columns, plan.cell);
  const tall = plan.tall ?? cell;
  const longest = (labels) => Math.max(...labels.map((label) => [...label].length));
  const left = plan.rowLabels ? Math.min(7 * longest(plan.rowLabels) + 8, 150) : 0;
  const top = plan.columnLabels && cell >= 5 ? Math.min(7 * longest(plan.columnLabels) + 8, 84) : 0;
  return { cell, tall, left, top, width: left + plan.columns * cell, height: top + plan.rows * tall };
}

// How many pixels a cell may have, so that `columns` of them fit beside each other in one of `side` maps.
function cellSize(columns, { side, margin, least, most }) {
  const room = columnWidth(side) - margin;
  return Math.min(Math.max(Math.floor(room / columns), least), most);
}

function paint(canvas, plan, shape) {
  const dots = Math.min(window.devicePixelRatio || 1, 2);
  canvas.width = Math.ceil(shape.width * dots);
  canvas.height = Math.ceil(shape.height * dots);
  canvas.style.width = `${shape.width}px`;
  canvas.style.height = `${shape.height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(dots, dots);
  pen.imageSmoothingEnabled = false;
  const { left, top, cell, tall } = shape;
  pen.drawImage(makeDots(plan), left, top, plan.columns * cell, plan.rows * tall);
  if (cell >= 8 && tall >= 8) drawGrid(pen, plan, shape);
  drawLabels(pen, plan, shape);
  pen.strokeStyle = styled("--map-mark");
  pen.lineWidth = 2;
  const { marked, markedRow } = plan;
  if (marked !== undefined) {
    pen.strokeRect(left + marked * cell + 1, top + 1, Math.max(cell - 2, 1), plan.rows * tall - 2);
  }
  if (markedRow !== undefined) {
    pen.strokeRect(left + 1, top + markedRow * tall + 1, plan.columns * cell - 2, Math.max(tall - 2, 1));
  }
}

// A canvas with one dot for each number, to be drawn larger. plan: { rows, columns, value(r, c), scale }
export function makeDots({ rows, columns, value, scale }) {
  const canvas = make("canvas", { width: columns, height: rows, "aria-hidden": "true" });
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(columns, rows);
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < columns; c++) {
      const colour = scale.colour(value(r, c));
      if (colour) image.data.set([...colour, 255], 4 * (r * columns + c));
    }
  }
  pen.putImageData(image, 0, 0);
  return canvas;
}

function drawGrid(pen, { rows, columns }, { left, top, cell, tall, width, height }) {
  pen.fillStyle = styled("--map-grid");
  for (let r = 0; r <= rows; r++) pen.fillRect(left, top + r * tall - (r === rows), width - left, 1);
  for (let c = 0; c <= columns; c++) pen.fillRect(left + c * cell - (c === columns), top, 1, height - top);
}

function drawLabels(pen, plan, { left, top, cell, tall }) {
  pen.font = FONT;
  pen.fillStyle = styled("--map-label");
  pen.textBaseline = "middle";
  const step = Math.max(1, Math.ceil(11 / tall));
  plan.rowLabels?.forEach((label, r) => {
    if (r % step === 0) pen.fillText(label, 2, top + (r + 0.5) * tall, left - 6);
  });
  if (!top) return;
  const every = Math.ceil(10 / cell);
  plan.columnLabels.forEach((label, c) => {
    const isMarked = c === plan.marked;
    if (!isMarked && (c % every || Math.abs(c - (plan.marked ?? -9)) < every)) return;
    pen.save();
    pen.translate(left + (c + 0.5) * cell, top - 4);
    pen.rotate(-Math.PI / 2);
    pen.fillText(label, 0, 0, top - 6);
    pen.restore();
  });
}

function listen(map) {
  const { box, plan } = map;
  box.addEventListener("pointermove", (event) => {
    const cell = cellUnder(map, event);
    if (cell) point(map, cell[0], cell[1], false);
  });
  box.addEventListener("click", (event) => {
    const cell = cellUnder(map, event);
    if (!cell) return;
    point(map, cell[0], cell[1], true);
    const again = String(map.tapped) === String(cell);
    map.tapped = cell;
    const touched = event.pointerType === "touch";
    map.again.hidden = !touched || plan.act === "read";
    if (!touched || again) plan.choose(cell[0], cell[1]); // a first touch only reads
  });
  box.addEventListener("focus", () => {
    const { r, c } = cursorOf(plan) ?? { r: 0, c: 0 };
    point(map, r, c, true);
  });
  box.addEventListener("keydown", (event) => pressed(map, event));
}

function cellUnder({ box, plan, shape }, event) {
  const edge = box.firstChild.getBoundingClientRect();
  const c = Math.floor((event.clientX - edge.left - shape.left) / shape.cell);
  const r = Math.floor((event.clientY - edge.top - shape.top) / shape.tall);
  return r >= 0 && c >= 0 && r < plan.rows && c < plan.columns ? [r, c] : null;
}

function pressed(map, event) {
  const { plan } = map;
  const { r, c } = cursorOf(plan) ?? { r: 0, c: 0 };
  const far = event.shiftKey ? 10 : 1;
  const moves = {
    ArrowUp: [r - far, c],
    ArrowDown: [r + far, c],
    ArrowLeft: [r, c - far],
    ArrowRight: [r, c + far],
    Home: [r, 0],
    End: [r, plan.columns - 1],
    PageUp: [0, c],
    PageDown: [plan.rows - 1, c],
  };
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    plan.choose(r, c);
  } else if (moves[event.key]) {
    event.preventDefault();
    const [down, right] = moves[event.key];
    const clip = (value, size) => Math.min(Math.max(value, 0), size - 1);
    point(map, clip(down, plan.rows), clip(right, plan.columns), true);
  }
}

// Put the cursor on a cell and read it. aloud: for a screen reader too, and scrolled into the box.
function point({ plan, shape, box, cursor, readout }, r, c, aloud) {
  cursors.set(plan.key, { r, c, about: plan.about });
  const size = Math.max(shape.cell, 6);
  const high = Math.max(shape.tall, 6);
  const left = shape.left + (c + 0.5) * shape.cell - size / 2;
  const top = shape.top + (r + 0.5) * shape.tall - high / 2;
  cursor.hidden = false;
  cursor.style.cssText = `left:${left}px;top:${top}px;width:${size}px;height:${high}px`;
  const sentence = plan.describe(r, c);
  readout.textContent = sentence;
  if (!aloud) return;
  announce(sentence);
  if (left < box.scrollLeft || left > box.scrollLeft + box.clientWidth - 20)
    box.scrollLeft = left - box.clientWidth / 2;
  if (top < box.scrollTop || top > box.scrollTop + box.clientHeight - 20)
    box.scrollTop = top - box.clientHeight / 2;
}
