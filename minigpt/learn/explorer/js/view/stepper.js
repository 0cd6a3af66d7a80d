// The buttons that walk the gradient back, a step at a time or by themselves.

import { announce, make, makeButton, makeToggle } from "./make.js";
import { change, state } from "./state.js";
import { word } from "./words.js";

const PACE = 1100; // milliseconds for a step that plays by itself

const player = { timer: null, said: null };

// last: the number of the last step
export function makeStepper(last) {
  const at = Math.min(state.step, last);
  const playing = player.timer !== null;
  const go = (step) => {
    stopPlaying();
    change({ step });
  };
  const button = (key, step, off) =>
    makeButton(word(`backward.${key}`), `step.${key}`, () => off || go(step), {
      "aria-disabled": off ? "true" : null, // it keeps the focus
      class: key === (at === last ? "begin" : "next") ? "small strong" : "small",
    });
  const play = () => (playing ? stopAndDraw() : startPlaying(last));
  return make(
    "div",
    { class: "stepper", role: "group", "aria-label": word("backward.steps") },
    button("begin", 0, at === 0),
    button("undo", at - 1, at === 0),
    button("next", at + 1, at === last),
    makeToggle("step.play", playing, play, { class: "small" }, word(playing ? "backward.pause" : "backward.play")),
    button("all", last, at === last),
    make("span", { class: "step-count" }, word("backward.count", { step: at, last })),
  );
}

function stopPlaying() {
  clearInterval(player.timer);
  player.timer = null;
}

function stopAndDraw() {
  stopPlaying();
  change({});
}

function startPlaying(last) {
  player.timer = setInterval(() => {
    if (state.step + 1 >= last) stopPlaying();
    change({ step: Math.min(state.step + 1, last) });
  }, PACE);
  change({ step: state.step >= last ? 0 : state.step + 1 });
}

// For a screen reader: the sentence of a step, when the step is another one.
export function sayStepOnce(sentence) {
  const before = player.said;
  player.said = state.step;
  if (before !== null && before !== state.step) announce(sentence);
}
