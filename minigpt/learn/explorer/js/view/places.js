// Which token is looked at, when the reader has not chosen one.

import { probabilities, runPass } from "../session.js";
import { readText } from "./passes.js";

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
