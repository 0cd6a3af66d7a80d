// Every head of a block: where each token looks, and which of these looks the loss wants changed.

import { largestFirst } from "../vectors.js";
import { make, makeNumberChoice, makeToggle, writeNumber, writePercent } from "./make.js";
import { largest, scaleSigned, scaleUp } from "./colours.js";
import { makeColumns } from "./columns.js";
import { makeDots } from "./maps.js";
import { makeCheckHint, makeCheckedMap } from "./check.js";
import { nameTokens } from "./labels.js";
import { change, state } from "./state.js";
import { word } from "./words.js";

export function drawAttention(host, views) {
  const fewest = (key) => Math.min(...views.map((view) => view.model.config[key]));
  const blocks = fewest("n_layer");
  const heads = fewest("n_head");
  const block = Math.min(state.block, blocks - 1);
  const head = Math.min(state.head, heads - 1);
  const sayBlock = (i) => word("block.one", { i });
  const sayHead = (h) => word("head.one", { h });
  host.replaceChildren(
    makeNumberChoice(word("block.label"), blocks, sayBlock, block, (i) => change({ block: i }), "block"),
    makeNumberChoice(word("head.label"), heads, sayHead, head, (h) => change({ head: h }), "head"),
    makeColumns(views, (view) => drawOneBlock(view, block, head)),
    views.some((view) => view.mistake) ? make("p", { class: "note" }, word("mistakes.sentences")) : "",
    makeCheckHint("attention", views),
  );
}

function drawOneBlock(view, block, head) {
  const weights = view.pass.values.get(`h.${block}.attn.p`);
  if (!weights.value) return make("p", {}, word("recorded.not_kept"));
  const of = { view, block, head, p: weights.value.part(head).data, dp: weights.gradient?.part(head).data };
  const heads = Array.from({ length: view.model.config.n_head }, (_, h) => h);
  const thumbs = heads.map((h) => makeThumb(view, weights.value.part(h).data, h, h === head));
  const label = word("attention.heads", { i: block });
  const maps = ["p", "dp"].filter((which) => of[which]).map((which) => makeHeadMap(of, which));
  return [
    make("div", { class: "thumbs", role: "group", "aria-label": label }, thumbs),
    make("div", { class: "pair" }, maps),
    make("p", {}, sayLooks(of)),
  ];
}

// A small picture of each head, to choose by.
function makeThumb(view, p, h, chosen) {
  const T = view.ids.length;
  const value = (r, c) => (isHidden(view, p, r, c) ? NaN : p[r * T + c]);
  const picture = makeDots({ rows: T, columns: T, value, scale: scaleUp(1) });
  const choose = () => change({ head: h });
  const name = make("span", {}, word("head.one", { h }));
  return makeToggle(`thumb.${view.key}.${h}`, chosen, choose, { class: "thumb-button" }, picture, name);
}

// Does key c come after query r, so that it is hidden? Not where a planted mistake, or an encoder, sees it.
function isHidden(view, p, r, c) {
  return !view.bothSides && c > r && p[r * view.ids.length + c] === 0;
}

function makeHeadMap(of, which) {
  const { view, block, head } = of;
  const T = view.ids.length;
  const data = of[which];
  const hidden = (r, c) => isHidden(view, of.p, r, c);
  return makeCheckedMap(view, `h.${block}.attn.p`, (r, c) => (hidden(r, c) ? null : (head * T + r) * T + c), {
    key: `attention.${which}.${view.key}`,
    title: word(`attention.${which}`, { i: block, h: head }),
    rows: T,
    columns: T,
    scale: which === "p" ? scaleUp(1) : scaleSigned(largest(data)),
    value: (r, c) => (hidden(r, c) ? NaN : data[r * T + c]),
    describe: (r, c) => (hidden(r, c) ? sayPair("attention.hidden", view, r, c) : sayCell(of, r, c)),
    rowLabels: view.labels,
    columnLabels: view.labels,
    markedRow: view.position,
    cell: { side: 2, margin: 84, least: 4, most: 24 },
    hint: word("attention.hint"),
    legend: word(`attention.legend_${which}`),
  });
}

function sayPair(key, view, r, c, more = {}) {
  return word(key, { query: view.labels[r], key: view.labels[c], ...more });
}

function sayCell({ view, block, p, dp }, r, c) {
  const at = r * view.ids.length + c;
  const numbers = { p: writeNumber(p[at]), dp: writeNumber(dp?.[at]) };
  return `${sayPair("attention.cell", view, r, c, numbers)} ${whyZero(view, dp?.[at], r, block)}`.trim();
}

// Why the loss of one prediction does not depend on a row.
function whyZero(view, dp, r, block) {
  if (dp !== 0 || state.lossOf === "all") return "";
  if (r > view.position) return word("attention.row_after");
  return r < view.position && block === view.model.config.n_layer - 1 ? word("attention.row_last") : "";
}

// The same in one sentence: where the chosen token looks most in this head.
function sayLooks({ view, p }) {
  const T = view.ids.length;
  const row = p.subarray(view.position * T, (view.position + 1) * T);
  const most = largestFirst(row, 3).filter((i) => row[i] > 0.005);
  const list = nameTokens(view, most, (i) => writePercent(row[i]));
  return word("attention.looks", { token: view.labels[view.position], list });
}
