// The walk of the gradient from the loss down to the embedding, in words: its steps are data of the page (walk.py).

import { state } from "./state.js";
import { word } from "./words.js";

// Of the residual stream, after the embedding and after each block: [{ name, label }]
export function streamOf(view) {
  return view.model.stream.map(labelled);
}

// The steps in the order of the backward pass: [{ key, name, i: block, rows: [{ name, label }] }]
export function stepsOf(view) {
  return view.model.walk.map((step) => ({ ...step, rows: step.rows.map(labelled) }));
}

function labelled(row) {
  return { name: row.name, label: word(row.label, row) };
}

// The sentence of a step, with the shapes of this text.
export function sayStep(view, { key, i }) {
  const { config } = view.model;
  const T = view.ids.length;
  const C = config.n_embd;
  const last = config.n_layer - 1;
  const values = {
    i,
    last,
    T,
    C,
    V: config.vocab_size,
    NH: config.n_head,
    F: view.pass.values.get(`h.${last}.mlp.f`)?.shape?.at(-1) ?? 4 * C,
    target: view.show(view.target),
    token: view.labels[view.position],
    t: view.position,
  };
  const isMean = key === "loss" && state.lossOf === "all" && T > 1;
  const sentence = isMean ? word("step.loss_all", values) : word(`step.${key}`, values);
  return view.mistake ? word("step.of_the_right_pass", { sentence }) : sentence;
}

// "block 3 MLP"
export function nameStep(step) {
  return word(`step.name_${step.name}`, step);
}
