// What is said of the drawing: the step that the pass is at, and where a planted mistake breaks the gradient.

import { titleOf } from "./columns.js";
import { writeNumber, writeShape } from "./make.js";
import { partAt, progressOf } from "./way.js";
import { word } from "./words.js";

// "block 2, attention"
export function namePart({ kind, block }) {
  const name = word(`stage.name_${kind}`);
  return block === null ? name : `${word("block.one", { i: block })}, ${name}`;
}

export function sayPlace(model, place) {
  const k = partAt(model, place);
  if (k < 0) return word("stage.start", { T: model.view.ids.length });
  return sayPart(model, k, progressOf(model, place).back);
}

// A step in one line: its name, what it does, its shape, and its size at the chosen token.
export function sayPart({ view, scene }, k, back) {
  const part = scene.parts[k];
  const V = view.model.config.vocab_size;
  const does = word(`stage.${back ? "backward" : "forward"}_${part.kind}`, { V });
  const kept = view.pass.values.get(part.name);
  const shape = writeShape(kept.shape ?? kept.value.shape);
  if (part.kind === "head" && !back) {
    return `${namePart(part)}: ${does} · ${shape} · ${word("pass.loss", { loss: writeNumber(view.pass.loss) })}`;
  }
  const numbers = {
    shape,
    token: view.labels[view.position],
    size: writeNumber(scene.sizes[back ? "gradient" : "value"][k][view.position]),
  };
  return `${namePart(part)}: ${does} · ${word(back ? "stage.gradient" : "stage.value", numbers)}`;
}

// With a planted mistake: where the gradient breaks; null without one.
export function sayBreak({ view, scene, wrong }) {
  if (!view.mistake) return null;
  const n = wrong.filter((names) => names.length).length;
  if (!n) return `✗ ${titleOf(view)}: ${word("stage.unbroken")}`;
  const first = firstBroken(wrong);
  const all = scene.parts.length;
  const figures = { place: namePart(scene.parts[first]), name: wrong[first][0], n, all };
  return `✗ ${titleOf(view)}: ${word("stage.breaks", figures)}`;
}

// The first part in the backward pass with a wrong gradient; -1: none. wrong: of each part, the names of its wrong ones
export function firstBroken(wrong) {
  return wrong.findLastIndex((names) => names.length);
}
