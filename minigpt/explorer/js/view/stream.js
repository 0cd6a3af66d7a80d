// The norm of the residual stream through the blocks, a line for each token.

import { make, writeNumber } from "./make.js";
import { chartWidth, makeLineChart } from "./charts.js";
import { makeColumns } from "./columns.js";
import { streamOf } from "./steps.js";
import { word } from "./words.js";

export function drawStream(host, views) {
  host.replaceChildren(makeColumns(views, drawOneStream));
}

function drawOneStream(view, side) {
  const stream = streamOf(view);
  const table = stream.map(({ name }) => view.norms(name, "value"));
  const norms = (t) => table.map((row) => row[t]);
  const chosen = norms(view.position);
  const token = view.labels[view.position];
  const others = view.ids.map((_, t) => t).filter((t) => t !== view.position);
  const lines = others.map((t) => ({ name: view.labels[t], values: norms(t), style: "quiet" }));
  lines.push({ name: `“${token}”`, values: chosen, style: "strong" });
  const list = stream.map(({ label }, i) => `${label} ${writeNumber(chosen[i])}`).join(", ");
  const sentence = word("stream.chart", { token, list });
  return [
    makeLineChart({ label: sentence, lines, width: chartWidth(side) }),
    make("p", { class: "readout" }, sentence),
    make("p", { class: "note" }, word(view.model.pre_norm ? "stream.pre" : "stream.post")),
  ];
}
