// "Check it yourself": a finite difference of one number, beside the gradient of the backward pass.

import { smallestDivisor, verdictOf } from "../differences.js";
import { finiteDifference } from "../session.js";
import { announce, make, writeNumber } from "./make.js";
import { titleOf } from "./steps.js";
import { change, state } from "./state.js";
import { word } from "./words.js";

const EPS = 1e-5;

// where: the map or the row that shows the answer, such as attention.p.m0
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

// The answer, directly below what was asked; null where nothing was.
export function makeCheckCard(view, where) {
  const { check } = state;
  if (!check || check.where !== where) return null;
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
  const noise = result.noise.toExponential(0);
  const floor = smallestDivisor(result.noise).toExponential(0);
  const list = lines.flatMap(([key, number]) => [make("dt", {}, word(key)), make("dd", {}, number)]);
  const how = { eps: EPS.toExponential(0), noise, floor };
  return [
    make("dl", {}, list),
    make("p", { class: "verdict" }, word(`check.${verdict}`)),
    isHidden(check, kept) ? make("p", { class: "note" }, word("check.hidden")) : null,
    make("p", { class: "note" }, word("check.how", how)),
  ];
}

// How to ask, as long as no number of this panel was chosen; "" afterwards, and where there is no loss.
export function makeCheckHint(panel, views) {
  if (views[0].pass.loss === null || state.check?.where.startsWith(`${panel}.`)) return "";
  return make("p", { class: "note check-hint" }, word("check.hint"));
}

// A new answer is scrolled to, if it is not in sight.
let broughtIntoSight = null;
export function bringCheckIntoSight() {
  if (state.check === broughtIntoSight) return;
  broughtIntoSight = state.check;
  document.querySelector(".check")?.scrollIntoView({ block: "nearest" });
}

// An attention weight of a token that comes later: the forward pass always makes it 0.
export function isHidden({ name, index }, { value }) {
  if (!name.endsWith(".attn.p") || value.data[index] !== 0) return false;
  const [, query, key] = placeOf(index, value.shape);
  return key > query;
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
