// A planted mistake: which gradients it changes, and how a finite difference finds it.

import { mistakes } from "../session.js";
import { make, writeNumber } from "./make.js";
import { checkNumber, makeCheckCard } from "./check.js";
import { normOf } from "./passes.js";
import { titleOf } from "./steps.js";
import { change, state } from "./state.js";
import { inLanguage, word } from "./words.js";

const SAME = 1e-9; // gradients that are nearer than this, relative to the right one, are the same

export function drawMistakes(host, views) {
  if (views.some((view) => view.recorded)) {
    host.replaceChildren(make("p", { class: "note" }, word("recorded.no_mistakes")));
    return;
  }
  const options = [{ name: "", title: word("mistakes.none") }, ...mistakes].map((one) =>
    make("option", { value: one.name, selected: one.name === (state.mistake ?? "") }, inLanguage(one.title)),
  );
  const select = make(
    "select",
    {
      id: "mistake",
      "data-focus": "mistake",
      onchange: (event) => change({ mistake: event.target.value || null, check: null }),
    },
    options,
  );
  const chosen = mistakes.find((one) => one.name === state.mistake);
  host.replaceChildren(
    make("div", { class: "menu" }, make("label", { for: "mistake" }, word("mistakes.menu")), select),
    ...(chosen
      ? [
          make("p", { class: "says" }, inLanguage(chosen.says)),
          make("p", { class: "note" }, word(`mistakes.in_${chosen.where}`)),
          make("div", { class: "columns" }, views.map(drawOneComparison)),
        ]
      : []),
    makeCheckCard(views, "mistakes"),
  );
}

function drawOneComparison(view) {
  const { changed, same } = compare(view);
  const title = make("h3", {}, titleOf(view));
  if (!changed.length) return make("div", { class: "column" }, title, make("p", {}, word("mistakes.nothing")));
  const first = changed[0];
  const rows = changed.map((one) => makeRow(view, one, one === first));
  const head = ["mistakes.tensor", "mistakes.ratio", "mistakes.apart", "mistakes.expose"].map((key) =>
    make("th", { scope: "col" }, word(key)),
  );
  return make(
    "div",
    { class: "column" },
    title,
    make("p", {}, word("mistakes.summary", { changed: changed.length, same, first: first.name })),
    make(
      "div",
      { class: "scroll tall", tabindex: "0", role: "region", "aria-label": word("mistakes.table") },
      make("table", { class: "changes" }, make("thead", {}, make("tr", {}, head)), make("tbody", {}, rows)),
    ),
  );
}

function makeRow(view, one, first) {
  return make(
    "tr",
    { class: first ? "first-wrong" : "" },
    make(
      "th",
      { scope: "row" },
      make("code", {}, one.name),
      first ? make("span", { class: "badge" }, word("mistakes.first")) : null,
    ),
    make("td", {}, Number.isFinite(one.ratio) ? writeNumber(one.ratio) : "–"),
    make("td", {}, writeNumber(one.apart)),
    make(
      "td",
      {},
      make(
        "button",
        {
          type: "button",
          class: "small",
          "data-focus": `expose.${view.key}.${one.name}`,
          "aria-label": word("mistakes.expose_one", { name: one.name }),
          onclick: () => checkNumber(view, one.name, one.worst, "mistakes"),
        },
        word("mistakes.check"),
      ),
    ),
  );
}

// Every gradient with the mistake against the right one, in the order in which the backward pass makes them.
function compare(view) {
  const changed = [];
  let same = 0;
  const order = [...view.right.values].filter(([, kept]) => kept.gradient);
  const activations = order.filter(([, kept]) => kept.kind === "activation").reverse();
  const parameters = order.filter(([, kept]) => kept.kind === "parameter").reverse();
  for (const [name, kept] of [...activations, ...parameters]) {
    const one = difference(name, kept.gradient.data, view.pass.values.get(name).gradient.data);
    if (one.apart > SAME) changed.push(one);
    else same += 1;
  }
  return { changed, same };
}

// worst: the place of the number that is furthest from the right one
function difference(name, right, wrong) {
  const apart = wrong.map((number, i) => number - right[i]);
  let worst = 0;
  apart.forEach((number, i) => {
    if (Math.abs(number) > Math.abs(apart[worst])) worst = i;
  });
  const size = normOf(right);
  return { name, worst, ratio: normOf(wrong) / size, apart: size ? normOf(apart) / size : normOf(apart) };
}
