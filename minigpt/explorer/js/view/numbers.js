// What one step of the backward pass did on this text, in numbers.

import { largestFirst } from "../vectors.js";
import { writeNumber } from "./make.js";
import { nameTokens } from "./labels.js";
import { word } from "./words.js";

const NAMED = 3; // columns that a sentence names

// steps: all of the walk; at: the number of this one -> a sentence, "" where the step fills no row
export function sayNumbers(view, steps, at) {
  const row = steps[at].rows.at(-1);
  if (!row) return "";
  const before = steps.slice(0, at).flatMap((step) => step.rows).at(-1);
  const norms = view.norms(row.name, "gradient");
  const earlier = before ? view.norms(before.name, "gradient") : null;
  const reached = largestFirst(norms, norms.length).filter((t) => norms[t] > 0);
  const fresh = earlier ? reached.filter((t) => !(earlier[t] > 0)) : [];
  const key = fresh.length ? "step.numbers_new" : earlier ? "step.numbers_same" : "step.numbers_first";
  const columns = fresh.length ? fresh : reached;
  const more = columns.length > NAMED ? ` ${word("step.more", { more: columns.length - NAMED })}` : "";
  const list = nameTokens(view, columns.slice(0, NAMED), (t) => writeNumber(norms[t])) + more;
  return word(key, { row: row.label, n: reached.length, T: norms.length, list });
}
