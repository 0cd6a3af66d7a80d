// The passes behind the picture: computed when they are first needed, and kept while the choices stay.

import { IGNORED } from "../ops/cross_entropy.js";
import { lens, probabilities, runPass } from "../session.js";
import { largestFirst, normOf } from "../vectors.js";
import { recordedView } from "./recordings.js";
import { state } from "./state.js";

const KEPT = 8;
const passes = new Map();

function kept(key, compute) {
  if (!passes.has(key)) {
    passes.set(key, compute());
    if (passes.size > KEPT) passes.delete(passes.keys().next().value);
  }
  return passes.get(key);
}

// The text in tokens, as long as the model can read it.
// -> { ids, unknown: [string], left: how many tokens did not fit }
function readText(model, text) {
  const { ids, unknown } = model.tokenizer.encode(text);
  const room = model.config.n_positions;
  return { ids: ids.slice(0, room), unknown, left: Math.max(ids.length - room, 0) };
}

// The last token that has one after it, so that there is something to compare with.
export function lastPlace(model, text) {
  return Math.max(readText(model, text).ids.length - 2, 0);
}

// Where the page begins: the last token after which the model is neither sure nor lost, so that there is a gradient.
export function firstPlace(model, text) {
  const { ids } = readText(model, text);
  if (ids.length < 2) return 0;
  const p = probabilities(runPass(model, ids, { backward: false }).logits);
  const isOpen = (t) => p.row(t)[ids[t + 1]] > 0.05 && p.row(t)[ids[t + 1]] < 0.7;
  for (let t = ids.length - 2; t >= 2; t--) {
    if (isOpen(t)) return t;
  }
  return ids.length - 2;
}

// A view: one model, or recording, on the reader's text, with what the panels ask for.
//   { key, model, ids, labels, unknown, left, position, target, targets, mistake, recorded }
//   bothSides: of an encoder, which tells the word at a place and not the next one
//   targetGuessed: the text has no next token here, so that the most probable one is the target
//   pass: with the planted mistake, if one is chosen; right: always without
//   show(id) -> the token as it is written on the page;   norms(name, "value" | "gradient") -> a norm for each position
//   best(layer, t, count) -> [[id, p]], the layers being those of the stream;   chance(layer, t, id) -> p or null
export function makeViews(sources) {
  const shown = state.shown === "both" ? sources : [sources[Number(state.shown)] ?? sources[0]];
  return shown.map((one) => {
    const number = sources.indexOf(one);
    return one.recorded ? recordedView(one, number, state.position) : makeView(one, number);
  });
}

function makeView(model, number) {
  const read = readText(model, state.text);
  const show = (id) => model.tokenizer.labels[id];
  const view = {
    key: `m${number}`,
    model,
    ...read,
    labels: read.ids.map(show),
    show,
    recorded: false,
    bothSides: false,
    mistake: state.mistake,
  };
  if (!view.ids.length) return view;
  view.position = Math.min(state.position, view.ids.length - 1);
  view.target = targetOf(view, number);
  view.targets = targetsOf(view);
  view.targetGuessed = state.target === null && view.position + 1 === view.ids.length;
  computePasses(view, number);
  view.norms = (name, which) => view.ids.map((_, t) => normOf(view.pass.values.get(name)[which].row(t)));
  const layers = () => (view.pass.lens ??= lens(model, view.pass));
  view.chance = (layer, t, id) => layers()[layer].row(t)[id];
  view.best = (layer, t, count) => {
    const row = layers()[layer].row(t);
    return largestFirst(row, count).map((id) => [id, row[id]]);
  };
  return view;
}

function computePasses(view, number) {
  const { model, ids, targets, mistake } = view;
  const key = `${number}|${ids}|${targets}`;
  view.right = kept(key, () => runPass(model, ids, { targets }));
  view.pass = mistake ? kept(`${key}|${mistake}`, () => runPass(model, ids, { targets, mistake })) : view.right;
}

// The token asked for: the reader's, or the next of the text, or what the model finds most probable.
function targetOf(view, number) {
  if (state.target !== null) return state.target;
  if (view.position + 1 < view.ids.length) return view.ids[view.position + 1];
  const forward = kept(`${number}|${view.ids}`, () => runPass(view.model, view.ids, { backward: false }));
  return largestFirst(probabilities(forward.logits).row(view.position), 1)[0];
}

function targetsOf(view) {
  const { ids, position } = view;
  if (state.lossOf === "all" && ids.length > 1) return [...ids.slice(1), IGNORED];
  return ids.map((_, i) => (i === position ? view.target : IGNORED));
}
