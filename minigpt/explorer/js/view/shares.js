// Who receives the gradient: the heads of each block, and the tokens of the text.

import { largestFirst, normOf } from "../vectors.js";
import { largest } from "./colours.js";
import { nameTokens } from "./labels.js";
import { makeBar, makeBars, makeTable } from "./lists.js";
import { make, makeTitled, writeNumber } from "./make.js";
import { word } from "./words.js";

// How much of the gradient each head of each block received: the norm of d(heads), head by head.
export function makeHeads(view, done) {
  const attended = done.filter((step) => step.name === "attn");
  if (!attended.length) return make("p", { class: "note" }, word("backward.heads_later"));
  const heads = Array.from({ length: view.model.config.n_head }, (_, h) => h);
  const rows = attended.map(({ i }) => {
    const shares = heads.map((h) => shareOfHead(view, i, h));
    return { label: word("block.one", { i }), cells: shares.map((share) => shareCell(share, largest(shares))) };
  });
  const titles = ["", ...heads.map((h) => word("head.one", { h }))];
  const table = makeTable(word("backward.heads"), "heads", titles, rows);
  return makeTitled(word("backward.heads"), null, table);
}

function shareCell(share, most) {
  if (Number.isNaN(share)) return make("td", {}, "–"); // it was not recorded
  return make("td", {}, makeBar(share / (most || 1)), make("small", {}, writeNumber(share)));
}

function shareOfHead(view, block, h) {
  const gradient = view.pass.values.get(`h.${block}.attn.heads`).gradient;
  if (!gradient) return NaN;
  const width = gradient.shape[1] / view.model.config.n_head;
  const columns = view.ids.flatMap((_, t) => [...gradient.row(t).subarray(h * width, (h + 1) * width)]);
  return normOf(columns);
}

// To which token's vector the loss is most sensitive, for a small step: the norm of dx at the bottom.
export function makeInputs(view) {
  const norms = view.norms("x", "gradient");
  const most = largest(norms) || 1;
  const order = largestFirst(norms, 3).filter((i) => norms[i] > 0);
  const after = norms.slice(view.position + 1).every((norm) => norm === 0) && view.position + 1 < norms.length;
  const items = norms.map((norm, i) => ({
    name: view.labels[i],
    part: norm / most,
    number: writeNumber(norm),
    class: norm === 0 ? "nothing" : "",
  }));
  const tokens = nameTokens(view, order, (i) => writeNumber(norms[i]));
  const sentence = word(view.mistake ? "backward.most_wrong" : "backward.most", { tokens });
  const said = make("p", {}, sentence, " ", after ? word("backward.after") : "");
  return makeTitled(word("backward.inputs"), null, said, makeBars("influence", items, word("backward.inputs")));
}
