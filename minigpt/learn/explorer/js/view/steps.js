// The walk of the gradient from the loss down to the embedding: which step makes which row of the picture.

import { streamNames } from "../session.js";
import { make } from "./make.js";
import { inLanguage, word } from "./words.js";

export function isPreNorm(model) {
  return model.preNorm ?? model.kind === "gpt2"; // a recorded model says it
}

export function streamOf(view) {
  return view.streamNames ?? streamNames(view.model);
}

// "embedding", "block 0", …
export function streamLabels(view) {
  return streamOf(view).map((_, i) =>
    i === 0 ? word("stream.embedding") : word("stream.block", { i: i - 1 }),
  );
}

// Every value of the stream that the picture shows, from the top down: [{ name, label }]
export function rowsOf(view) {
  return stepsOf(view).flatMap((step) => step.rows);
}

// [{ key, block, part, rows: [{ name, label }] }]: the steps in the order of the backward pass
export function stepsOf(view) {
  const { model } = view;
  const stream = streamOf(view);
  const blocks = stream.length - 1;
  const top = { name: stream[blocks], label: word("stream.block", { i: blocks - 1 }) };
  const steps = [{ key: "loss", rows: [] }];
  if (isPreNorm(model)) {
    steps.push({ key: "head_norm", rows: [{ name: "ln_f", label: "ln_f" }, top] });
  } else {
    steps.push({ key: "head", rows: [top] });
  }
  for (let i = blocks - 1; i >= 0; i--) {
    const below = {
      name: stream[i],
      label: i === 0 ? word("stream.embedding") : word("stream.block", { i: i - 1 }),
    };
    steps.push({
      key: isPreNorm(model) ? "mlp_pre" : "mlp_post",
      block: i,
      part: "mlp",
      rows: rowsOfMlp(view, i),
    });
    steps.push({
      key: isPreNorm(model) ? "attn_pre" : "attn_post",
      block: i,
      part: "attn",
      rows: [...rowsOfSum(model, i), below],
    });
  }
  steps.push({ key: "embedding", rows: [] });
  return steps;
}

// In a block whose attention and MLP read the same stream no sum lies between them: no row.
function rowsOfMlp({ model, pass }, i) {
  if (isPreNorm(model)) {
    const name = `h.${i}.x_attn`;
    return pass && !pass.values.has(name) ? [] : [{ name, label: word("stream.sum_attn", { i }) }];
  }
  return [
    { name: `h.${i}.x_mlp`, label: word("stream.sum_mlp", { i }) },
    { name: `h.${i}.ln_1`, label: word("stream.norm", { i }) },
  ];
}

function rowsOfSum(model, i) {
  return isPreNorm(model) ? [] : [{ name: `h.${i}.x_attn`, label: word("stream.sum_attn", { i }) }];
}

// The sentence of a step, with the shapes of this text. Every block does the same: it is said once, of the last block.
export function sayStep(view, step, all) {
  const last = view.model.config.n_layer - 1;
  if (step.part && step.block !== last) return word(`step.again_${step.part}`, { last });
  const { config } = view.model;
  const T = view.ids.length;
  const C = config.n_embd;
  const values = {
    i: step.block,
    T,
    C,
    V: config.vocab_size,
    NH: config.n_head,
    F: view.pass?.values.get(`h.${last}.mlp.f`)?.shape?.at(-1) ?? 4 * C,
    target: view.show(view.target),
    token: view.labels[view.position],
    t: view.position,
  };
  const isMean = all && T > 1 && step.key === "loss";
  const sentence = isMean ? word("step.loss_all", values) : word(`step.${step.key}`, values);
  return view.mistake ? word("step.of_the_right_pass", { sentence }) : sentence;
}

// "block 3 MLP"
export function nameStep(step) {
  if (step.part === "mlp") return word("step.name_mlp", { i: step.block });
  if (step.part === "attn") return word("step.name_attn", { i: step.block });
  return word(`step.name_${step.key}`);
}

export function titleOf(view) {
  return inLanguage(view.model.title);
}

// The heading of a model's column; it says where a planted mistake is at work.
export function makeTitle(view) {
  const badge = view.mistake ? make("span", { class: "badge" }, word("mistakes.badge")) : "";
  return make("h3", {}, titleOf(view), badge);
}
