// What one step of the backward pass did on this text, in numbers.

import { largestFirst } from "../vectors.js";
import { writeNumber } from "./make.js";
import { labelAt } from "./labels.js";
import { word } from "./words.js";

const NAMED = 3; // columns that a sentence names

// steps: all of the walk; at: the number of this one -> a sentence, "" where the step fills no row
export function sayNumbers(view, steps, at) {
  const row = steps[at].rows.at(-1);
  if (!row) return "";
  const before = steps.slice(0, at).flatMap((step) => step.rows).at(-1);
  const norms = view.norms(row.name, "gradient");
  const earlier = before ? view.norms(before.name, "gradient") : null;
  const columns = norms.map((_, t) => t).filter((t) => norms[t] > 0);
  const fresh = earlier ? columns.filter((t) => !(earlier[t] > 0)) : [];
  const figures = { row: row.label, n: columns.length, T: norms.length };
  if (fresh.length) return word("step.numbers_new", { ...figures, list: list(view, norms, fresh) });
  return word(earlier ? "step.numbers_same" : "step.numbers_first", {
    ...figures,
    list: list(view, norms, columns),
  });
}

// The largest of these columns with their norms, and how many more there are.
function list(view, norms, columns) {
  const largest = largestFirst(norms, norms.length).filter((t) => columns.includes(t));
  const named = largest.slice(0, NAMED).map((t) => `${labelAt(view, t)} ${writeNumber(norms[t])}`);
  const more = columns.length - named.length;
  return named.join(", ") + (more > 0 ? ` ${word("step.more", { more })}` : "");
}
