// The columns of a panel: one for each model that is shown.

import { make } from "./make.js";
import { inLanguage, word } from "./words.js";

const EDGES = 56; // pixels left and right of the panels
const WIDEST = 1040;
const NARROW = 700; // a page narrower than this shows its columns below each other
const GAP = 12; // between columns

// draw(view, side): what stands in the column of a view, below its title; side: how many columns there are
export function makeColumns(views, draw, makeHeading = makeTitle) {
  const side = views.length;
  const columns = views.map((view) => make("div", { class: "column" }, makeHeading(view), draw(view, side)));
  return make("div", { class: "columns" }, columns);
}

// The heading of a model's column; it says where a planted mistake is at work.
export function makeTitle(view) {
  const badge = view.mistake ? make("span", { class: "badge" }, word("mistakes.badge")) : "";
  return make("h3", {}, titleOf(view), badge);
}

export function titleOf(view) {
  return inLanguage(view.model.title);
}

// The width of one of `side` columns, in pixels.
export function columnWidth(side) {
  const page = Math.min(document.documentElement.clientWidth - EDGES, WIDEST);
  return page < NARROW ? page : page / side - GAP * (side - 1);
}
