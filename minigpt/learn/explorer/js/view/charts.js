// Lines over the blocks, as SVG.

import { make, makeSvg, writeNumber } from "./make.js";
import { columnWidth } from "./room.js";

const MARGIN = { left: 52, right: 14, top: 14, bottom: 46 };

// plan: { label, xLabels: [string], xTitle, yTitle, lines: [{ name, values, style }], width,
//         power: true for a scale of powers of ten }
// a line that is thin has no marks and no name below
// style: "quiet" | "strong" | "first" | "second"
export function makeLineChart(plan) {
  const width = plan.width;
  const height = 260;
  const numbers = plan.lines
    .flatMap((line) => line.values)
    .filter((value) => Number.isFinite(value) && (value > 0 || !plan.power));
  const y = plan.power ? scaleOfLogs(numbers, height) : scaleFromZero(numbers, height);
  const count = plan.xLabels.length;
  const x = (i) => MARGIN.left + (i * (width - MARGIN.left - MARGIN.right)) / Math.max(count - 1, 1);
  const svg = makeSvg("svg", {
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    role: "img",
    "aria-label": plan.label,
    class: "chart",
  });
  svg.append(...makeAxes(plan, x, y, width, height));
  for (const line of plan.lines) svg.append(...drawLine(line, x, y));
  const names = plan.lines
    .filter((line) => line.style !== "quiet" && !line.thin)
    .map((line) => make("span", { class: `key ${line.style}` }, line.name));
  return make(
    "figure",
    { class: "chart-box" },
    make("div", { class: "scroll", "data-scrolls": "" }, svg),
    make("figcaption", { class: "keys" }, names),
  );
}

function scaleFromZero(numbers, height) {
  const most = Math.max(...numbers, 1e-12) * 1.05;
  const room = height - MARGIN.top - MARGIN.bottom;
  const step = niceStep(most / 4);
  const ticks = Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
  return { ticks, at: (value) => MARGIN.top + room * (1 - value / most) };
}

function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].find((times) => times * power >= rough) * power;
}

function scaleOfLogs(numbers, height) {
  const low = Math.floor(Math.log10(Math.min(...numbers)) * 2) / 2;
  const high = Math.max(Math.ceil(Math.log10(Math.max(...numbers)) * 2) / 2, low + 0.5);
  const room = height - MARGIN.top - MARGIN.bottom;
  const every = high - low > 4 ? 2 : high - low > 1.5 ? 1 : 0.5;
  const ticks = [];
  for (let power = Math.ceil(low / every) * every; power <= high + 1e-9; power += every) {
    ticks.push(10 ** power);
  }
  return {
    ticks,
    at: (value) => (value > 0 ? MARGIN.top + (room * (high - Math.log10(value))) / (high - low) : null),
  };
}

function makeAxes(plan, x, y, width, height) {
  const parts = [];
  const bottom = height - MARGIN.bottom;
  for (const tick of y.ticks) {
    const at = y.at(tick);
    parts.push(makeSvg("line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: at, y2: at, class: "grid" }));
    parts.push(makeSvg("text", { x: MARGIN.left - 6, y: at + 4, "text-anchor": "end" }, shortNumber(tick)));
  }
  const every = Math.ceil(plan.xLabels.length / Math.max(Math.floor((width - 70) / 34), 1));
  plan.xLabels.forEach((label, i) => {
    if (i % every === 0)
      parts.push(makeSvg("text", { x: x(i), y: bottom + 16, "text-anchor": "middle" }, label));
  });
  parts.push(
    makeSvg(
      "text",
      { x: (width + MARGIN.left) / 2, y: height - 8, "text-anchor": "middle", class: "title" },
      plan.xTitle,
    ),
  );
  parts.push(
    makeSvg(
      "text",
      {
        x: 12,
        y: bottom / 2,
        "text-anchor": "middle",
        class: "title",
        transform: `rotate(-90 12 ${bottom / 2})`,
      },
      plan.yTitle,
    ),
  );
  return parts;
}

function shortNumber(value) {
  return value !== 0 && (value < 0.01 || value >= 10000)
    ? value.toExponential(0)
    : String(Number(value.toPrecision(2)));
}

function drawLine(line, x, y) {
  const points = line.values
    .map((value, i) => [x(i), y.at(value)])
    .filter((point) => Number.isFinite(point[1]));
  const path = points
    .map(([across, down], i) => `${i ? "L" : "M"}${across.toFixed(1)},${down.toFixed(1)}`)
    .join("");
  const drawn = [makeSvg("path", { d: path, class: `line ${line.style}` })];
  if (line.thin) drawn[0].style.cssText = "stroke-width: 1; opacity: 0.45";
  if (line.style === "quiet" || line.thin) return drawn;
  const marks = points.map(([across, down], i) => {
    const mark =
      line.style === "second"
        ? makeSvg("rect", { x: across - 3, y: down - 3, width: 6, height: 6, class: `mark ${line.style}` })
        : makeSvg("circle", { cx: across, cy: down, r: 3.5, class: `mark ${line.style}` });
    mark.append(makeSvg("title", {}, `${line.name}: ${writeNumber(line.values[i])}`));
    return mark;
  });
  return [...drawn, ...marks];
}

export function chartWidth(side = 1) {
  return Math.max(Math.min(columnWidth(side), 640), 260);
}
