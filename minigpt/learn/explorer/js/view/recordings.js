// Views of a recorded pass: a larger model was computed elsewhere, and the page shows those numbers.

import { Tensor, sizeOf } from "../tensor.js";
import { bytesOfBase64, inflate, joinPlanes, numbersOf } from "../weights.js";

// recorded: the list in the page -> [recording], with all numbers unpacked
export async function openRecordings(recorded) {
  const opened = [];
  for (const one of recorded ?? []) opened.push(await openRecording(one));
  return opened;
}

// What words are chosen by: see setWords.
export function kindsOf(recorded) {
  if (!recorded) return [];
  const kinds = ["recorded"];
  if (recorded.some((one) => one.both_sides)) kinds.unshift("encoder");
  if (recorded.some((one) => one.after_gpt2)) kinds.unshift("decoder");
  return tellWords(recorded) ? kinds : ["body", ...kinds];
}

// Have all of them a head for words? A body alone has no predictions, no loss and no gradients.
export function tellWords(recorded) {
  return recorded === null || recorded.every((one) => one.tells_words);
}

async function openRecording(one) {
  const planes = await inflate(bytesOfBase64(one.numbers));
  const numbers = numbersOf(joinPlanes(planes), one.dtype);
  const values = new Map();
  for (const entry of one.values) {
    const tensor = (kept) => (kept ? cutOut(numbers, kept, entry.shape) : null);
    values.set(entry.name, {
      kind: entry.kind,
      shape: entry.shape,
      value: tensor(entry.value),
      gradient: tensor(entry.gradient),
      norms: entry.norms,
    });
  }
  const { name, title, config } = one;
  const model = { name, title, config, kind: config.model_type, preNorm: one.pre_norm };
  return { ...one, recorded: true, values, model };
}

function cutOut(numbers, { offset, scale }, shape) {
  const part = numbers.subarray(offset, offset + sizeOf(shape));
  return new Tensor(Float64Array.from(part, (number) => number * scale), shape);
}

// A view of a recording, with what `makeViews` gives for a model that computes.
export function recordedView(recording, number, position) {
  const { model, ids, targets, loss, values, labels } = recording;
  const show = (id) => labels[id];
  const at = Math.min(position, ids.length - 1);
  const layers = recording.lens.map((layer) => layer.top);
  const chances = (layer, t) => layers[layer]?.[t] ?? [];
  const guess = chances(layers.length - 1, at)[0]?.[0] ?? null;
  return {
    key: `r${number}`,
    model,
    recorded: true,
    mistake: null,
    unknown: [],
    left: 0,
    ids,
    labels: ids.map(show),
    position: at,
    targets,
    target: targets[at] >= 0 ? targets[at] : guess,
    targetGuessed: targets[at] < 0,
    bothSides: recording.both_sides,
    pass: { loss, values, ms: null },
    right: null,
    streamNames: recording.lens.map((layer) => layer.name),
    layers: layers.length,
    show,
    norms: (name, which) => values.get(name)?.norms?.[which] ?? [],
    best: (layer, t, count) => chances(layer, t).slice(0, count),
    chance: (layer, t, id) => chances(layer, t).find(([one]) => one === id)?.[1] ?? null,
  };
}
