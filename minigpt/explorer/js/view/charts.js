// Lines over the blocks, as SVG: how a norm changes from the embedding to the last block.

import { columnWidth } from "./columns.js";
import { make, makeSvg, writeNumber } from "./make.js";
import { word } from "./words.js";

const HEIGHT = 260;
const LEFT = 52; // margins
const RIGHT = 14;
const TOP = 14;
const BOTTOM = HEIGHT - 46;
const EDGE = 1e-9;

// plan: { label, lines: [{ name, values: one for each place of the stream, style }], width,
//         power: true for a scale of powers of ten }
// a line that is thin has no marks and no name below
// style: "quiet" | "strong" | "first" | "second"
export function makeLineChart({ label, lines, width, power = false }) {
  const isDrawn = (value) => Number.isFinite(value) && (value > 0 || !power);
  const numbers = lines.flatMap((line) => line.values).filter(isDrawn);
  const y = power ? scaleOfLogs(numbers) : scaleFromZero(numbers);
  const count = lines[0].values.length;
  const x = (i) => LEFT + (i * (width - LEFT - RIGHT)) / Math.max(count - 1, 1);
  const drawn = [makeAxes(count, x, y, width), ...lines.map((line) => drawLine(line, x, y))];
  const about = { role: "img", "aria-label": label, class: "chart" };
  const svg = makeSvg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, ...about }, drawn);
  const named = lines.filter((line) => line.style !== "quiet" && !line.thin);
  const keys = named.map((line) => make("span", { class: `key ${line.style}` }, line.name));
  return make(
    "figure",
    { class: "chart-box" },
    make("div", { class: "scroll", "data-scrolls": "" }, svg),
    make("figcaption", { class: "keys" }, keys),
  );
}

// A scale: ticks: its numbers; at(value) -> how far down it lies
function scaleFromZero(numbers) {
  const most = Math.max(...numbers, 1e-12) * 1.05;
  const step = niceStep(most / 4);
  const ticks = Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
  return { ticks, at: (value) => TOP + (BOTTOM - TOP) * (1 - value / most) };
}

function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].find((times) => times * power >= rough) * power;
}

function scaleOfLogs(numbers) {
  const low = Math.floor(Math.log10(Math.min(...numbers)) * 2) / 2;
  const high = Math.max(Math.ceil(Math.log10(Math.max(...numbers)) * 2) / 2, low + 0.5);
  const every = high - low > 4 ? 2 : high - low > 1.5 ? 1 : 0.5;
  const first = Math.ceil(low / every) * every;
  const count = Math.floor((high + EDGE - first) / every) + 1;
  const ticks = Array.from({ length: count }, (_, i) => 10 ** (first + i * every));
  const at = (value) => (value > 0 ? TOP + ((BOTTOM - TOP) * (high - Math.log10(value))) / (high - low) : null);
  return { ticks, at };
}

function makeAxes(count, x, y, width) {
  const lines = y.ticks.flatMap((tick) => [
    makeSvg("line", { x1: LEFT, x2: width - RIGHT, y1: y.at(tick), y2: y.at(tick), class: "grid" }),
    makeSvg("text", { x: LEFT - 6, y: y.at(tick) + 4, "text-anchor": "end" }, shortNumber(tick)),
  ]);
  const middle = { "text-anchor": "middle" };
  const every = Math.ceil(count / Math.max(Math.floor((width - 70) / 34), 1));
  const places = Array.from({ length: Math.ceil(count / every) }, (_, i) => i * every);
  const blocks = places.map((i) => makeSvg("text", { x: x(i), y: BOTTOM + 16, ...middle }, nameOfPlace(i)));
  const up = { x: 12, y: BOTTOM / 2, transform: `rotate(-90 12 ${BOTTOM / 2})` };
  const titles = [
    makeSvg("text", { x: (width + LEFT) / 2, y: HEIGHT - 8, ...middle, class: "title" }, word("stream.x")),
    makeSvg("text", { ...up, ...middle, class: "title" }, word("stream.y")),
  ];
  return [...lines, ...blocks, ...titles];
}

function nameOfPlace(i) {
  return i ? String(i - 1) : word("stream.start");
}

function shortNumber(value) {
  const isLong = value !== 0 && (value < 0.01 || value >= 10000);
  return isLong ? value.toExponential(0) : String(Number(value.toPrecision(2)));
}

function drawLine({ name, values, style, thin }, x, y) {
  const points = values.map((value, i) => [x(i), y.at(value)]).filter((point) => Number.isFinite(point[1]));
  const path = points.map(([across, down], i) => `${i ? "L" : "M"}${across.toFixed(1)},${down.toFixed(1)}`).join("");
  const line = makeSvg("path", { d: path, class: `line ${style}${thin ? " thin" : ""}` });
  if (style === "quiet" || thin) return [line];
  const marks = points.map(([across, down], i) => {
    const title = makeSvg("title", {}, `${name}: ${writeNumber(values[i])}`);
    return makeMark(style, across, down, title);
  });
  return [line, ...marks];
}

function makeMark(style, x, y, title) {
  const kind = { class: `mark ${style}` };
  if (style === "second") return makeSvg("rect", { x: x - 3, y: y - 3, width: 6, height: 6, ...kind }, title);
  return makeSvg("circle", { cx: x, cy: y, r: 3.5, ...kind }, title);
}

export function chartWidth(side) {
  return Math.max(Math.min(columnWidth(side), 640), 260);
}
