// The buttons that walk the gradient back, a step at a time.

import { announce, make, makeButton } from "./make.js";
import { change, state } from "./state.js";
import { word } from "./words.js";

let stepSaid = null;

// last: the number of the last step
export function makeStepper(last) {
  const at = Math.min(state.step, last);
  const button = (key, step, off) =>
    makeButton(word(`backward.${key}`), `step.${key}`, () => off || change({ step }), {
      "aria-disabled": off ? "true" : null, // it keeps the focus
      class: key === (at === last ? "begin" : "next") ? "small strong" : "small",
    });
  return make(
    "div",
    { class: "stepper", role: "group", "aria-label": word("backward.steps") },
    button("begin", 0, at === 0),
    button("undo", at - 1, at === 0),
    button("next", at + 1, at === last),
    button("all", last, at === last),
    make("span", { class: "step-count" }, word("backward.count", { step: at, last })),
  );
}

// For a screen reader: the sentence of a step, when the step is another one.
export function sayStepOnce(sentence) {
  const before = stepSaid;
  stepSaid = state.step;
  if (before !== null && before !== state.step) announce(sentence);
}
