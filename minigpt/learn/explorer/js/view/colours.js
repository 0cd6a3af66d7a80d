// Colours of numbers: one scale from zero up, one with a sign; both are told apart by lightness too.

import { make } from "./make.js";

const SCALES = {
  light: {
    up: [
      [250, 250, 247],
      [198, 219, 222],
      [106, 168, 188],
      [40, 101, 148],
      [12, 38, 92],
    ],
    signed: [
      [8, 64, 129],
      [67, 140, 196],
      [176, 209, 230],
      [248, 247, 243],
      [244, 200, 150],
      [214, 118, 42],
      [127, 59, 8],
    ],
  },
  dark: {
    up: [
      [24, 27, 33],
      [28, 66, 92],
      [36, 117, 134],
      [104, 183, 151],
      [250, 240, 170],
    ],
    signed: [
      [150, 212, 255],
      [62, 150, 219],
      [30, 78, 122],
      [24, 27, 33],
      [122, 70, 22],
      [224, 132, 48],
      [255, 208, 150],
    ],
  },
};

export function isDark() {
  const theme = document.documentElement.dataset.theme;
  if (theme === "dark" || theme === "light") return theme === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

function between(stops, part) {
  const place = Math.min(Math.max(part, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(place), stops.length - 2);
  const share = place - low;
  return stops[low].map((from, i) => Math.round(from + share * (stops[low + 1][i] - from)));
}

// A scale: colour(value) -> [r, g, b] or null (nothing to paint); ticks: the numbers of its legend, from left to right.
// Small numbers are spread: the colour goes with the square root.
export function scaleUp(most) {
  const stops = SCALES[isDark() ? "dark" : "light"].up;
  const top = most || 1;
  const colour = (value) =>
    Number.isFinite(value) ? between(stops, Math.sqrt(Math.max(value, 0) / top)) : null;
  return { colour, ticks: [0, top / 2, top], at: (part) => part * top };
}

export function scaleSigned(most) {
  const stops = SCALES[isDark() ? "dark" : "light"].signed;
  const top = most || 1;
  const colour = (value) => {
    if (!Number.isFinite(value)) return null;
    const root = Math.sqrt(Math.min(Math.abs(value) / top, 1));
    return between(stops, 0.5 + 0.5 * Math.sign(value) * root);
  };
  return { colour, ticks: [-top, 0, top], at: (part) => (2 * part - 1) * top };
}

// Powers of ten: the darkest is `most`, the lightest that over 1,000; exactly zero stays empty.
export function scaleOfPowers(most) {
  const stops = SCALES[isDark() ? "dark" : "light"].up;
  const top = most || 1;
  const colour = (value) => {
    if (!(value > 0)) return null;
    return between(stops, 0.12 + 0.88 * (1 + Math.log10(value / top) / 3));
  };
  return { colour, ticks: [top / 1000, top / 31.6, top], at: (part) => top * 10 ** (3 * part - 3) };
}

export function largest(numbers) {
  let most = 0;
  for (const number of numbers) {
    const size = Math.abs(number);
    if (size > most && size < Infinity) most = size;
  }
  return most;
}

function writeTick(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size < 1e-3 || size >= 1e4 ? value.toExponential(1) : String(Number(value.toPrecision(3)));
}

// The bar of colours with its numbers.
export function makeLegend(scale, title) {
  const parts = Array.from({ length: 25 }, (_, i) => scale.colour(scale.at(i / 24)) ?? [0, 0, 0]);
  const bar = make("span", { class: "legend-bar" });
  bar.style.background = `linear-gradient(to right, ${parts.map((rgb) => `rgb(${rgb.join(",")})`).join(",")})`;
  const numbers = scale.ticks.map((tick) => make("span", {}, writeTick(tick)));
  return make(
    "div",
    { class: "legend" },
    make("span", { class: "legend-title" }, title),
    make("span", { class: "legend-scale" }, bar, make("span", { class: "legend-numbers" }, numbers)),
  );
}
