// The heart of the page: the gradient of one loss, walking back through blocks, heads and tokens.

import { make, writeNumber } from "./make.js";
import { largest, scaleOfPowers } from "./colours.js";
import { makeColumns, titleOf } from "./columns.js";
import { makeMap } from "./maps.js";
import { makeHeads, makeInputs } from "./shares.js";
import { makeStepper, sayStepOnce } from "./stepper.js";
import { sayNumbers } from "./numbers.js";
import { nameStep, sayStep, stepsOf } from "./steps.js";
import { change, state } from "./state.js";
import { word } from "./words.js";

let stepInSight = 0;

export function drawBackward(host, views) {
  const last = Math.max(...views.map((view) => stepsOf(view).length)) - 1;
  host.replaceChildren(makeStepper(last), makeColumns(views, drawOneWalk));
  sayStepOnce([...host.querySelectorAll(".step-sentence.now")].map((sentence) => sentence.textContent).join(" "));
  if (state.step === stepInSight) return;
  stepInSight = state.step;
  host.querySelector(".map").scrollIntoView({ block: "nearest" });
}

function drawOneWalk(view, side) {
  const steps = stepsOf(view);
  const at = Math.min(state.step, steps.length - 1);
  const done = steps.slice(0, at + 1);
  return [
    make("div", { class: "step-box" }, steps.map((_, i) => makeSentence(view, steps, i, i === at))),
    makeFlow(view, steps, done, side),
    makeHeads(view, done),
    at === steps.length - 1 ? makeInputs(view) : make("p", { class: "note" }, word("backward.inputs_later")),
  ];
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
  const norms = rows.map((row) => view.norms(row.name, "gradient"));
  const sayCell = (r, c) => {
    const cell = { row: rows[r].label, name: rows[r].name, token: view.labels[c], norm: writeNumber(norms[r][c]) };
    return word(r < reached ? "backward.cell" : "backward.not_yet", cell);
  };
  const map = makeMap({
    key: `backward.${view.key}`,
    label: word("backward.map", { model: titleOf(view) }),
    rows: rows.length,
    columns: view.ids.length,
    scale: scaleOfPowers(largest(norms.flatMap((row) => [...row]))),
    value: (r, c) => (r < reached ? norms[r][c] : NaN),
    describe: sayCell,
    choose: (r) => change({ tensor: rows[r].name, slice: 0 }, "inspect"),
    act: "open",
    rowLabels: rows.map((row) => row.label),
    columnLabels: view.labels,
    marked: view.position,
    markedRow: reached && reached < rows.length ? reached - 1 : undefined,
    cell: { side, margin: 126, least: 8, most: 26 },
    tall: 19,
    hint: word("backward.hint"),
    legend: word("backward.legend"),
  });
  const names = word(view.model.pre_norm ? "backward.rows_pre" : "backward.rows_post");
  map.append(make("p", { class: "note" }, names));
  return map;
}
