// Below the text: what of it the model could not take, and the figures of the pass.

import { make, writeNumber, writePercent } from "./make.js";
import { state } from "./state.js";
import { titleOf } from "./columns.js";
import { word } from "./words.js";

const A_BYTE = /\\x[0-9a-f]{2}/;

export function drawNotes(host, views) {
  const warnings = warningsOf(views[0]);
  const place = host.querySelector(".warnings");
  const before = [...place.children].map((line) => line.textContent);
  if (String(before) !== String(warnings)) {
    place.replaceChildren(...warnings.map((sentence) => make("p", { class: "warning" }, sentence)));
  }
  const figures = views.filter((view) => view.pass).map((view) => figuresOf(view, views.length > 1));
  const lines = figures.map((line) => make("p", { class: "figures" }, line));
  if (views[0].labels.some((label) => A_BYTE.test(label))) {
    lines.push(make("p", { class: "note" }, word("tokens.bytes")));
  }
  document.querySelector(".figures-of-passes").replaceChildren(...lines);
}

function warningsOf(view) {
  const warnings = [];
  if (view.unknown.length) {
    const characters = [...new Set(view.unknown)].map((character) => `“${character}”`).join(" ");
    warnings.push(word("tokens.unknown", { characters }));
  }
  if (view.left) {
    const room = view.model.config.n_positions;
    warnings.push(word("tokens.too_long", { room, all: room + view.left, left: view.left }));
  }
  if (view.recorded) warnings.push(word("recorded.note"));
  if (view.pass?.loss === null) warnings.push(word("recorded.no_words"));
  if (view.mistake) warnings.push(word("mistakes.on"));
  return warnings;
}

// "GPT-1: tokens: 24 · loss 2.548 (the target has probability 7.8 %) · forward 8 ms, backward 12 ms"
function figuresOf(view, named) {
  const { pass, recorded, ids } = view;
  const parts = [word("pass.tokens", { n: ids.length })];
  if (pass.loss !== null) {
    const loss = word("pass.loss", { loss: writeNumber(pass.loss) });
    const isOne = state.lossOf === "one" && !recorded;
    const share = isOne ? ` ${word("pass.probability", { p: writePercent(Math.exp(-pass.loss)) })}` : "";
    parts.push(loss + share);
  }
  if (pass.ms) {
    const { forward, backward } = pass.ms;
    parts.push(word("pass.ms", { forward: forward.toFixed(0), backward: backward.toFixed(0) }));
  }
  return `${named ? `${titleOf(view)}: ` : ""}${parts.join(" · ")}`;
}
