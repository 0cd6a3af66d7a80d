// Beside the drawing: what the model would say next, read where the pass is; on the way back, the gradient of that.

import { largest } from "./colours.js";
import { makeBars } from "./lists.js";
import { make, writeNumber, writePercent } from "./make.js";
import { state } from "./state.js";
import { streamOf } from "./steps.js";
import { tokenBar } from "./tokens.js";
import { word } from "./words.js";

const SHOWN = 7; // tokens

// back, done: how far the pass is, in parts; isDone: is the forward pass done?
export function showAnswer({ view, scene, answer }, { back, done, isDone }) {
  if (!answer) return;
  const stream = streamOf(view);
  const reached = stream.filter(({ name }) => scene.parts.findIndex((part) => part.name === name) < Math.floor(done));
  const layer = back || isDone ? stream.length - 1 : reached.length - 1;
  const pull = back ? view.pass.values.get("logits").gradient?.row(view.position) : null;
  const ids = idsOf(view, stream.length - 1);
  const most = pull ? largest(ids.map((id) => pull[id])) || 1 : 1;
  const items = ids.map((id) => makeItem(view, id, layer, pull, most));
  const token = view.labels[view.position];
  const title = word(titleKey(pull, back || isDone, layer), { token, layer: stream[Math.max(layer, 0)].label });
  const loss = state.lossOf === "one" && !view.recorded ? "stage.loss" : "stage.loss_all";
  const said = layer < stream.length - 1 ? "\u00a0" : word(loss, { loss: writeNumber(view.pass.loss) });
  answer.replaceChildren(
    make("p", { class: "answer-title" }, title),
    makeBars("bars", items, title),
    make("p", { class: "answer-loss" }, said),
  );
}

// layer: the last state of the stream that is there; -1 before the first
function titleKey(pull, isAtEnd, layer) {
  if (pull) return "stage.pulls";
  if (isAtEnd) return "stage.says";
  return layer < 0 ? "stage.silent" : "stage.would_say";
}

// The likeliest tokens, and the target among them.
function idsOf(view, top) {
  const ids = view.best(top, view.position, SHOWN).map(([id]) => id);
  return ids.includes(view.target) ? ids : [...ids.slice(0, SHOWN - 1), view.target];
}

// A token: its probability, or the gradient of its score.
function makeItem(view, id, layer, pull, most) {
  const p = layer < 0 ? 0 : view.chance(layer, view.position, id);
  const pulls = pull && `${pull[id] < 0 ? "▲" : "▼"} ${Math.abs(pull[id]).toFixed(3)}`;
  const number = pulls ?? (layer < 0 || p === null ? "–" : writePercent(p));
  const part = pull ? Math.abs(pull[id]) / most : (p ?? 0);
  return tokenBar(view, id, "stage.bar", { part, number });
}
