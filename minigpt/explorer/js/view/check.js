// "Check it yourself": a finite difference of one number, beside the gradient of the backward pass.

import { smallestDivisor, verdictOf } from "../differences.js";
import { finiteDifference } from "../session.js";
import { titleOf } from "./columns.js";
import { makePairs } from "./lists.js";
import { announce, make, writeNumber } from "./make.js";
import { makeMap } from "./maps.js";
import { change, state } from "./state.js";
import { word } from "./words.js";

const EPS = 1e-5;

// A map of the numbers of one value, or of its gradient, in which a number is chosen to be checked; the answer stands
// directly below it. indexAt(r, c) -> where the number lies in the value; null: there is none to check
export function makeCheckedMap(view, name, indexAt, plan) {
  const choose = (r, c) => {
    const index = indexAt(r, c);
    if (index !== null) checkNumber(view, name, index, plan.key);
  };
  const act = view.recorded ? "read" : "check";
  return makeMap({ kind: "half", about: name, choose, act, answer: makeCheckCard(view, plan.key), ...plan });
}

// where: the map or the row that shows the answer, such as attention.p.m0
export function checkNumber(view, name, index, where) {
  const asked = { name, index, where };
  if (view.recorded) {
    change({ check: { ...asked, refused: true } });
    announce(word("recorded.no_difference"));
    return;
  }
  change({ check: { ...asked, waiting: true } });
  setTimeout(() => {
    const { model, ids, targets, mistake } = view;
    const result = finiteDifference(model, ids, targets, name, index, { eps: EPS, mistake });
    const verdict = verdictOf(result);
    change({ check: { ...asked, result, verdict } });
    announce(`${word(`check.${verdict}`)} ${word("check.relative")} ${writeNumber(result.relative)}`);
  }, 20);
}

// The answer, directly below what was asked; null where nothing was.
export function makeCheckCard(view, where) {
  const { check } = state;
  if (!check || check.where !== where) return null;
  const value = view.pass.values.get(check.name)?.value;
  if (!value) return null;
  const place = placeOf(check.index, value.shape).join(", ");
  const title = make("h4", {}, word("check.title", { name: check.name, place, model: titleOf(view) }));
  return make("div", { class: `check ${check.verdict ?? ""}`.trim() }, title, answer(check, value));
}

function answer(check, value) {
  if (check.refused) return make("p", {}, word("recorded.no_difference"));
  if (check.waiting) return make("p", {}, word("check.waiting"));
  const { result, verdict } = check;
  const noise = result.noise.toExponential(0);
  const floor = smallestDivisor(result.noise).toExponential(0);
  return [
    makePairs([
      [word("check.value"), writeNumber(value.data[check.index])],
      [word("check.plus"), result.plus.toFixed(12)],
      [word("check.minus"), result.minus.toFixed(12)],
      [word("check.numeric"), result.numeric.toExponential(9)],
      [word("check.analytic"), result.analytic.toExponential(9)],
      [word("check.relative"), result.relative.toExponential(1)],
    ]),
    make("p", { class: "verdict" }, word(`check.${verdict}`)),
    isOfTheFuture(check, value) ? make("p", { class: "note" }, word("check.hidden")) : null,
    make("p", { class: "note" }, word("check.how", { eps: EPS.toExponential(0), noise, floor })),
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
function isOfTheFuture({ name, index }, value) {
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
