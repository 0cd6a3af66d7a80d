// The norm of the residual stream through the blocks, a line for each token.

import { make, writeNumber } from "./make.js";
import { chartWidth, makeLineChart } from "./charts.js";
import { makeTitle, streamOf } from "./steps.js";
import { word } from "./words.js";

export function drawStream(host, views) {
  host.replaceChildren(
    make(
      "div",
      { class: "columns" },
      views.map((view) => drawOneStream(view, views.length)),
    ),
  );
}

function drawOneStream(view, side) {
  const stream = streamOf(view);
  const labels = stream.map((row) => row.label);
  const table = stream.map(({ name }) => view.norms(name, "value"));
  const norms = (t) => table.map((row) => row[t]);
  const chosen = norms(view.position);
  const token = view.labels[view.position];
  const others = view.ids.map((_, t) => t).filter((t) => t !== view.position);
  const lines = others.map((t) => ({ name: view.labels[t], values: norms(t), style: "quiet" }));
  lines.push({ name: `“${token}”`, values: chosen, style: "strong" });
  const list = labels.map((label, i) => `${label} ${writeNumber(chosen[i])}`).join(", ");
  return make(
    "div",
    { class: "column" },
    makeTitle(view),
    makeLineChart({
      label: word("stream.chart", { token, list }),
      xLabels: labels.map((_, i) => (i ? String(i - 1) : word("stream.start"))),
      xTitle: word("stream.x"),
      yTitle: word("stream.y"),
      lines,
      width: chartWidth(side),
    }),
    make("p", { class: "readout" }, word("stream.chart", { token, list })),
    make("p", { class: "note" }, word(view.model.pre_norm ? "stream.pre" : "stream.post")),
  );
}
