// Who receives the gradient: the heads of each block, and the tokens of the text.

import { largestFirst } from "../vectors.js";
import { make, makeBar, makeTable, writeNumber } from "./make.js";
import { largest } from "./colours.js";
import { labelAt } from "./labels.js";
import { word } from "./words.js";

// How much of the gradient each head of each block received: the norm of d(heads), head by head.
export function makeHeads(view, done) {
  const attended = done.filter((step) => step.name === "attn").map((step) => step.i);
  if (!attended.length) return make("p", { class: "note" }, word("backward.heads_later"));
  const heads = Array.from({ length: view.model.config.n_head }, (_, h) => h);
  const rows = attended.map((block) => {
    const shares = sharesOfHeads(view, block, heads.length);
    return {
      label: word("block.one", { i: block }),
      cells: shares.map((share) => shareCell(share, largest(shares))),
    };
  });
  const titles = ["", ...heads.map((h) => word("head.one", { h }))];
  const table = makeTable(word("backward.heads"), "heads", titles, rows);
  return make("div", {}, make("h4", {}, word("backward.heads")), table);
}

function shareCell(share, most) {
  if (!Number.isFinite(share)) return make("td", {}, "–"); // it was not recorded
  return make("td", {}, makeBar(share / (most || 1)), make("small", {}, writeNumber(share)));
}

function sharesOfHeads(view, block, heads) {
  const gradient = view.pass.values.get(`h.${block}.attn.heads`)?.gradient;
  if (!gradient) return Array(heads).fill(NaN);
  const C = gradient.shape[gradient.shape.length - 1];
  const width = C / heads;
  const sums = Array(heads).fill(0);
  gradient.data.forEach((number, at) => {
    sums[Math.floor((at % C) / width)] += number * number;
  });
  return sums.map(Math.sqrt);
}

// To which token's vector the loss is most sensitive, for a small step: the norm of dx at the bottom.
export function makeInputs(view) {
  const norms = view.norms("x", "gradient");
  const most = largest(norms) || 1;
  const order = largestFirst(norms, 3).filter((i) => norms[i] > 0);
  const after = norms.slice(view.position + 1).every((norm) => norm === 0) && view.position + 1 < norms.length;
  const chips = norms.map((norm, i) => {
    const token = make("span", { class: "token-text" }, view.labels[i]);
    const number = make("small", {}, writeNumber(norm));
    return make("li", { class: norm === 0 ? "nothing" : "" }, token, makeBar(norm / most), number);
  });
  const names = order.map((i) => `${labelAt(view, i)} ${writeNumber(norms[i])}`).join(", ");
  const sentence = word(view.mistake ? "backward.most_wrong" : "backward.most", { tokens: names });
  return make(
    "div",
    {},
    make("h4", {}, word("backward.inputs")),
    make("p", {}, sentence, " ", after ? word("backward.after") : ""),
    make("ol", { class: "influence", "aria-label": word("backward.inputs") }, chips),
  );
}
