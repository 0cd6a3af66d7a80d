// Views of a recorded pass: a larger model was computed elsewhere, and the page shows those numbers.

import { Tensor, sizeOf } from "../tensor.js";
import { bytesOfBase64, inflate, joinPlanes, numbersOf } from "../weights.js";

// recorded: the list in the page -> [recording], with all numbers unpacked
export function openRecordings(recorded) {
  return Promise.all(recorded.map(openRecording));
}

async function openRecording(one) {
  const planes = await inflate(bytesOfBase64(one.numbers));
  const numbers = numbersOf(joinPlanes(planes), one.dtype);
  const values = new Map();
  for (const entry of one.values) {
    const tensor = (kept) => (kept ? cutOut(numbers, kept, entry.shape) : null);
    values.set(entry.name, { ...entry, value: tensor(entry.value), gradient: tensor(entry.gradient) });
  }
  return { ...one, recorded: true, values, model: one };
}

function cutOut(numbers, { offset, scale }, shape) {
  const part = numbers.subarray(offset, offset + sizeOf(shape));
  return new Tensor(Float64Array.from(part, (number) => number * scale), shape);
}

// A view of a recording, with what `makeViews` gives for a model that computes.
export function recordedView(recording, number, position) {
  const { model, ids, targets, loss, values } = recording;
  const show = (id) => recording.labels[id];
  const at = Math.min(position, ids.length - 1);
  const chances = (layer, t) => recording.lens[layer].top?.[t] ?? [];
  const guess = chances(recording.lens.length - 1, at)[0]?.[0] ?? null;
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
    pass: { loss, values },
    right: null,
    show,
    norms: (name, which) => values.get(name)?.norms?.[which] ?? [],
    best: (layer, t, count) => chances(layer, t).slice(0, count),
    chance: (layer, t, id) => chances(layer, t).find(([one]) => one === id)?.[1] ?? null,
  };
}
