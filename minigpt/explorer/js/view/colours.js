// Colours of numbers: one scale from zero up, one with a sign; both are told apart by lightness too.
//
// The colours themselves stand in style.css, which knows whether it is light or dark.

import { make } from "./make.js";

// A colour, or several, of style.css by its name: "--mark"
export function styled(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// name: of a property with several colours, "#fafaf7 #c6dbde ..." -> the colour at each part from 0 to 1, [r, g, b]
export function blend(name) {
  const pair = (hex, at) => parseInt(hex.slice(at, at + 2), 16);
  const stops = styled(name)
    .split(" ")
    .map((hex) => [pair(hex, 1), pair(hex, 3), pair(hex, 5)]);
  return (part) => {
    const place = Math.min(Math.max(part, 0), 1) * (stops.length - 1);
    const low = Math.min(Math.floor(place), stops.length - 2);
    const share = place - low;
    return stops[low].map((from, i) => Math.round(from + share * (stops[low + 1][i] - from)));
  };
}

// A scale: colour(value) -> [r, g, b] or null (nothing to paint); ticks: the numbers of its legend, from left to right.
// Small numbers are spread: the colour goes with the square root.
export function scaleUp(most) {
  const at = blend("--scale-up");
  const top = most || 1;
  const colour = (value) => (Number.isFinite(value) ? at(Math.sqrt(Math.max(value, 0) / top)) : null);
  return { colour, ticks: [0, top / 2, top], at: (part) => part * top };
}

export function scaleSigned(most) {
  const at = blend("--scale-signed");
  const top = most || 1;
  const colour = (value) => {
    if (!Number.isFinite(value)) return null;
    const root = Math.sqrt(Math.min(Math.abs(value) / top, 1));
    return at(0.5 + 0.5 * Math.sign(value) * root);
  };
  return { colour, ticks: [-top, 0, top], at: (part) => (2 * part - 1) * top };
}

// Powers of ten: the darkest is `most`, the lightest that over 1,000; exactly zero stays empty.
export function scaleOfPowers(most) {
  const at = blend("--scale-up");
  const top = most || 1;
  const colour = (value) => (value > 0 ? at(0.12 + 0.88 * (1 + Math.log10(value / top) / 3)) : null);
  return { colour, ticks: [top / 1000, top / 31.6, top], at: (part) => top * 10 ** (3 * part - 3) };
}

// Of the largest number, on a scale of powers of ten: it is 1, a thousandth of it nearly 0.
export function shareOfPowers(part) {
  return part > 0 ? Math.min(Math.max(1 + Math.log10(part) / 3, 0.04), 1) : 0;
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
