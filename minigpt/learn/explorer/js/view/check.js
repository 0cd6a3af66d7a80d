// "Check it yourself": a finite difference of one number, beside the gradient of the backward pass.

import { roundingNoise } from "../differences.js";
import { finiteDifference } from "../session.js";
import { announce, make, writeNumber } from "./make.js";
import { titleOf } from "./steps.js";
import { change, state } from "./state.js";
import { word } from "./words.js";

const HAPPY = 1e-7;
const SUSPICIOUS = 1e-4;
const EPS = 1e-5;

function noiseOf(result) {
  return roundingNoise((result.plus + result.minus) / 2, EPS);
}

// -> "happy" | "zero" | "noise" | "suspicious" | "wrong"
export function verdictOf(result) {
  const apart = Math.abs(result.numeric - result.analytic);
  const bound = noiseOf(result);
  if (result.numeric === 0 && result.analytic === 0) return "zero";
  if (result.relative < HAPPY) return "happy";
  if (apart < bound) return "noise";
  return result.relative < SUSPICIOUS ? "suspicious" : "wrong";
}

// where: the panel that shows the answer
export function checkNumber(view, name, index, where) {
  if (view.recorded) {
    change({ check: { view: view.key, name, index, where, refused: true } });
    announce(word("recorded.no_difference"));
    return;
  }
  change({ check: { view: view.key, name, index, where, waiting: true } });
  setTimeout(() => {
    const { model, ids, targets, mistake } = view;
    const result = finiteDifference(model, ids, targets, name, index, { eps: EPS, mistake });
    const verdict = verdictOf(result);
    change({ check: { view: view.key, name, index, where, result, verdict } });
    announce(`${word(`check.${verdict}`)} ${word("check.relative")} ${writeNumber(result.relative)}`);
  }, 20);
}

// The answer; nothing as long as no number of this panel was chosen.
export function makeCheckCard(views, where) {
  const { check } = state;
  const view = views.find((one) => one.key === check?.view);
  if (!check || check.where !== where || !view)
    return make("p", { class: "note check-hint" }, word("check.hint"));
  const kept = view.pass.values.get(check.name);
  if (!kept?.value) return null;
  const place = placeOf(check.index, kept.value.shape);
  const title = make(
    "h4",
    {},
    word("check.title", { name: check.name, place: place.join(", "), model: titleOf(view) }),
  );
  if (check.refused)
    return make("div", { class: "check" }, title, make("p", {}, word("recorded.no_difference")));
  if (check.waiting) return make("div", { class: "check" }, title, make("p", {}, word("check.waiting")));
  return make("div", { class: `check ${check.verdict}` }, title, ...answer(check, kept));
}

function answer(check, kept) {
  const { result, verdict } = check;
  const value = kept.value.data[check.index];
  const lines = [
    ["check.value", writeNumber(value)],
    ["check.plus", result.plus.toFixed(12)],
    ["check.minus", result.minus.toFixed(12)],
    ["check.numeric", result.numeric.toExponential(9)],
    ["check.analytic", result.analytic.toExponential(9)],
    ["check.relative", result.relative.toExponential(1)],
  ];
  const list = lines.flatMap(([key, number]) => [make("dt", {}, word(key)), make("dd", {}, number)]);
  const how = { eps: EPS.toExponential(0), noise: noiseOf(result).toExponential(0) };
  return [
    make("dl", {}, list),
    make("p", { class: "verdict" }, word(`check.${verdict}`)),
    make("p", { class: "note" }, word("check.how", how)),
  ];
}

// A place in a tensor from the place in its row of numbers: index 7 of shape (2, 4) is [1, 3].
export function placeOf(index, shape) {
  const place = [];
  let rest = index;
  for (const size of [...shape].reverse()) {
    place.unshift(rest % size);
    rest = Math.floor(rest / size);
  }
  return place;
}
