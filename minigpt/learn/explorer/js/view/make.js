// Elements of the page, and how numbers are written on it.

// make("button", { class: "small", onclick: f }, "text", child) -> element
export function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  setAttributes(made, attributes);
  made.append(...children.flat(2).filter((child) => child !== null && child !== undefined));
  return made;
}

// focus: the name under which the button keeps the focus when the page is redrawn
export function makeButton(label, focus, onclick, more = {}) {
  return make("button", { type: "button", class: "small", "data-focus": focus, onclick, ...more }, label);
}

// A menu with its label; options: elements -> [label, menu]
export function makeMenu(id, label, options, choose) {
  const onchange = (event) => choose(event.target.value);
  return [make("label", { for: id }, label), make("select", { id, "data-focus": id, onchange }, options)];
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
  const table = make("table", { class: kind });
  table.append(make("thead", {}, make("tr", {}, titles)), make("tbody", {}, lines));
  return make("div", { class: `scroll of-${kind}`, tabindex: "0", role: "region", "aria-label": label }, table);
}

const SVG = "http://www.w3.org/2000/svg";

export function makeSvg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  setAttributes(made, attributes);
  made.append(...children.flat());
  return made;
}

function setAttributes(made, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) {
      made.addEventListener(name.slice(2), value);
    } else if (value !== null && value !== undefined && value !== false) {
      made.setAttribute(name, value === true ? "" : value);
    }
  }
}

// Four digits; a power of ten where the number is very small or very large.
export function writeNumber(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  if (!Number.isFinite(value)) return value === -Infinity ? "-∞" : String(value);
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e5) return value.toExponential(2);
  return size >= 1000 ? value.toFixed(0) : value.toPrecision(4);
}

export function writePercent(p) {
  if (p >= 0.0995) return `${Math.round(100 * p)} %`;
  if (p >= 0.001) return `${(100 * p).toFixed(1)} %`;
  return "< 0.1 %";
}

export function writeShape(shape) {
  return `(${shape.join(", ")})`;
}

// A sentence for a screen reader; it is not seen.
let lastAnnounced = 0;
export function announce(sentence) {
  const live = document.getElementById("live");
  const turn = ++lastAnnounced;
  setTimeout(() => {
    if (turn === lastAnnounced) live.textContent = sentence;
  }, 150);
}

// One choice of several, as buttons. choices: [{ value, label, title }]; key: keeps the focus when the page is redrawn.
export function makeChoice(label, choices, chosen, choose, key) {
  const buttons = choices.map((choice, i) =>
    make(
      "button",
      {
        type: "button",
        class: "choice",
        "aria-pressed": String(choice.value === chosen),
        title: choice.title,
        "data-focus": `${key}.${choice.value}`,
        onclick: () => choose(choice.value),
        onkeydown: (event) => moveInChoice(event, choices, i, choose, key),
      },
      choice.label,
    ),
  );
  return make(
    "div",
    { class: "choices", role: "group", "aria-label": label },
    make("span", { class: "choices-label", "aria-hidden": "true" }, label),
    buttons,
  );
}

function moveInChoice(event, choices, i, choose, key) {
  const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!by) return;
  event.preventDefault();
  const next = choices[(i + by + choices.length) % choices.length];
  document.querySelector(`[data-focus="${CSS.escape(`${key}.${next.value}`)}"]`)?.focus();
  choose(next.value);
}
