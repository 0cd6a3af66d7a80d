// The heart of the page: the gradient of one loss, walking back through blocks, heads and tokens.

import { make, writeNumber } from "./make.js";
import { largest, makeLegend, scaleOfPowers } from "./colours.js";
import { cellSize, makeHeatmap } from "./heatmap.js";
import { makeHeads, makeInputs } from "./shares.js";
import { makeStepper, sayStepOnce } from "./stepper.js";
import { sayNumbers } from "./numbers.js";
import { makeTitle, nameStep, sayStep, stepsOf, titleOf } from "./steps.js";
import { change, state } from "./state.js";
import { word } from "./words.js";

let stepInSight = 0;

export function drawBackward(host, views) {
  const last = Math.max(...views.map((view) => stepsOf(view).length)) - 1;
  const walks = views.map((view) => drawOneWalk(view, views.length));
  host.replaceChildren(makeStepper(last), make("div", { class: "columns" }, walks));
  sayStepOnce([...host.querySelectorAll(".step-sentence.now")].map((sentence) => sentence.textContent).join(" "));
  if (state.step === stepInSight) return;
  stepInSight = state.step;
  host.querySelector(".map").scrollIntoView({ block: "nearest" });
}

function drawOneWalk(view, side) {
  const steps = stepsOf(view);
  const at = Math.min(state.step, steps.length - 1);
  const done = steps.slice(0, at + 1);
  return make(
    "div",
    { class: "column" },
    makeTitle(view),
    make("div", { class: "step-box" }, steps.map((_, i) => makeSentence(view, steps, i, i === at))),
    makeFlow(view, steps, done, side),
    makeHeads(view, done),
    at === steps.length - 1 ? makeInputs(view) : make("p", { class: "note" }, word("backward.inputs_later")),
  );
}

// All sentences lie in one place, and one is seen: so the box has one height, and the map below it does not move.
function makeSentence(view, steps, i, now) {
  return make(
    "p",
    { class: now ? "step-sentence now" : "step-sentence" },
    make("strong", {}, `${nameStep(steps[i])}: `),
    `${sayStep(view, steps[i])} `,
    make("span", { class: "step-numbers" }, sayNumbers(view, steps, i)),
  );
}

// Rows: values of the stream from the top down. Columns: tokens. Colour: the norm of the gradient of that vector.
function makeFlow(view, steps, done, side) {
  const rows = steps.flatMap((step) => step.rows);
  const reached = done.flatMap((step) => step.rows).length;
  const T = view.ids.length;
  const norms = rows.map((row) => view.norms(row.name, "gradient"));
  const scale = scaleOfPowers(largest(norms.flatMap((row) => [...row])));
  const map = makeHeatmap({
    key: `backward.${view.key}`,
    label: word("backward.map", { model: titleOf(view) }),
    rows: rows.length,
    columns: T,
    scale,
    value: (r, c) => (r < reached ? norms[r][c] : NaN),
    describe: (r, c) =>
      r < reached
        ? word("backward.cell", {
            row: rows[r].label,
            name: rows[r].name,
            token: view.labels[c],
            norm: writeNumber(norms[r][c]),
          })
        : word("backward.not_yet", { row: rows[r].label }),
    choose: (r) => showTensor(rows[r].name),
    act: "open",
    rowLabels: rows.map((row) => row.label),
    columnLabels: view.labels,
    marked: view.position,
    markedRow: reached && reached < rows.length ? reached - 1 : undefined,
    cell: cellSize(T, { side, margin: 126, least: 8, most: 26 }),
    tall: 19,
    hint: word("backward.hint"),
  });
  const names = word(view.model.pre_norm ? "backward.rows_pre" : "backward.rows_post");
  return make("div", {}, map, makeLegend(scale, word("backward.legend")), make("p", { class: "note" }, names));
}

function showTensor(name) {
  change({ tensor: name, slice: 0 }, "inspect");
}
