// Lists of numbers: probabilities, shares, gradients, the figures of a check; as bars, in a table, or in pairs.

import { make } from "./make.js";

// A list of bars. items: [{ name, part: the length of the bar, 0 to 1, number: as it is written, class,
//                           button: attributes, where a click does something }]
export function makeBars(kind, items, label = null) {
  return make("ol", { class: kind, "aria-label": label }, items.map(makeBarItem));
}

function makeBarItem({ name, part, number, button, ...more }) {
  const cells = [
    make("span", { class: "bar-name" }, name),
    makeBar(part),
    make("span", { class: "bar-number" }, number),
  ];
  return make("li", more, button ? make("button", { type: "button", class: "word", ...button }, cells) : cells);
}

// A bar as long as its part (0 to 1) of the room.
export function makeBar(part) {
  const bar = make("span", { class: "bar" });
  bar.style.width = `${100 * part}%`;
  return make("span", { class: "bar-room" }, bar);
}

// A table that scrolls in its own box. heads: labels of the columns; rows: [{ label, cells: [td], class, span }]
export function makeTable(label, kind, heads, rows) {
  const titles = heads.map((head) => make("th", { scope: "col" }, head));
  const lines = rows.map((row) =>
    make("tr", { class: row.class }, make("th", { scope: "row", colspan: row.span }, row.label), row.cells),
  );
  const body = [make("thead", {}, make("tr", {}, titles)), make("tbody", {}, lines)];
  const box = { class: `scroll of-${kind}`, tabindex: "0", role: "region", "aria-label": label };
  return make("div", box, make("table", { class: kind }, body));
}

// pairs: [[what it is, its number]]
export function makePairs(pairs) {
  return make("dl", {}, pairs.flatMap(([name, number]) => [make("dt", {}, name), make("dd", {}, number)]));
}
