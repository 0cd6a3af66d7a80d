// Elements of the page, and how numbers are written on it.

const SVG = "http://www.w3.org/2000/svg";

// make("button", { class: "small", onclick: f }, "text", child) -> element
export function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function makeSvg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(made, attributes, children) {
  setAttributes(made, attributes);
  made.append(...children.flat(2).filter((child) => child !== null && child !== undefined));
  return made;
}

// What belongs together below a title; kind: class of the whole
export function makeTitled(title, kind, ...below) {
  return make("div", { class: kind }, make("h4", {}, title), below);
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

// The options of a menu, those of one group together. groupOf(one) -> the label of its group; option(one) -> element
export function makeGroups(all, groupOf, option) {
  const labels = [...new Set(all.map(groupOf))];
  return labels.map((label) => make("optgroup", { label }, all.filter((one) => groupOf(one) === label).map(option)));
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

// One of the numbers 0 to count - 1; titleOf(number): what it stands for
export function makeNumberChoice(label, count, titleOf, chosen, choose, key) {
  const choices = Array.from({ length: count }, (_, i) => ({ value: i, label: String(i), title: titleOf(i) }));
  return makeChoice(label, choices, chosen, choose, key);
}

// One choice of several, as buttons. choices: [{ value, label, title }]; key: keeps the focus when the page is redrawn.
export function makeChoice(label, choices, chosen, choose, key) {
  const focusOf = (i) => `${key}.${choices[i].value}`;
  const chooseAt = (i) => choose(choices[i].value);
  const buttons = choices.map((choice, i) => {
    const before = (i + choices.length - 1) % choices.length;
    const after = (i + 1) % choices.length;
    const moves = { ArrowRight: after, ArrowDown: after, ArrowLeft: before, ArrowUp: before };
    const onkeydown = (event) => moveAmong(event, moves, focusOf, chooseAt);
    const more = { class: "choice", title: choice.title, onkeydown };
    return makeToggle(focusOf(i), choice.value === chosen, () => chooseAt(i), more, choice.label);
  });
  return make(
    "div",
    { class: "choices", role: "group", "aria-label": label },
    make("span", { class: "choices-label", "aria-hidden": "true" }, label),
    buttons,
  );
}

// A button that is pressed, or not. focus: see makeButton
export function makeToggle(focus, isPressed, onclick, more, ...content) {
  const pressed = { "aria-pressed": String(isPressed), "data-focus": focus, onclick };
  return make("button", { type: "button", ...pressed, ...more }, content);
}

// A key moves from one of several buttons to another, and chooses it. moves: {key: the number of the other}
export function moveAmong(event, moves, focusOf, choose) {
  const to = moves[event.key];
  if (to === undefined) return;
  event.preventDefault();
  focusOn(focusOf(to));
  choose(to);
}

export function focusOn(focus, options = {}) {
  document.querySelector(`[data-focus="${CSS.escape(focus)}"]`)?.focus(options);
}
