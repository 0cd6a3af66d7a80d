// A little machine on a page: sliders, a drawing that follows them, and a sentence that says what is seen.
//
// Each of the other files puts one into `machines`:
//   controls: [{ name, from, to, step, value }, ...]   one slider each
//   shown: { name: a function of a slider's value }    how its value is written, if not as a number
//   compute: { slider: value, ... } -> numbers
//   size: [width, height] of the drawing
//   draw: (drawing, numbers, values, words)
//   says: (numbers, values) -> what is put into the braces of words.says
// On a page it stands in <div class="machine" data-machine="..." data-words="...">; see machines.py.

const machines = {};

class Drawing {
  constructor(width, height) {
    this.svg = this.make("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  }

  make(name, attributes, text = "") {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    if (this.svg) this.svg.append(made);
    return made;
  }

  clear() {
    this.svg.replaceChildren();
  }

  box(x, y, width, height, kind) {
    return this.make("rect", { x, y, width: Math.max(width, 0), height: Math.max(height, 0), class: kind });
  }

  text(x, y, text, kind = "", anchor = "start") {
    return this.make("text", { x, y, class: kind, "text-anchor": anchor }, text);
  }

  // points: [[x, y], ...]
  line(points, kind) {
    const [start, ...others] = points.map((point) => point.map((number) => number.toFixed(1)).join(" "));
    return this.make("path", { d: `M ${start} ${others.map((point) => `L ${point}`).join(" ")}`, class: kind });
  }

  // Half of an ellipse from (x, y) to (end, y); above: how high it rises.
  bow(x, end, y, above, kind) {
    const [first, second] = [(x * 3 + end) / 4, (x + end * 3) / 4]; // the control points of the curve stand here
    const top = y - above;
    return this.make("path", { d: `M ${x} ${y} C ${first} ${top}, ${second} ${top}, ${end} ${y}`, class: kind });
  }

  dot(x, y, radius, kind) {
    return this.make("circle", { cx: x, cy: y, r: radius, class: kind });
  }
}

// "{p} of {n}" with { p: 1, n: 2 } is "1 of 2".
function filled(text, values) {
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

function slider(control, words, place, moved) {
  const label = document.createElement("label");
  const name = document.createElement("span");
  name.textContent = words[control.name];
  const input = document.createElement("input");
  Object.assign(input, { type: "range", min: control.from, max: control.to, step: control.step });
  input.value = control.value;
  const output = document.createElement("output");
  input.addEventListener("input", moved);
  label.append(name, input, output);
  place.append(label);
  return { input, output };
}

function start(place) {
  const machine = machines[place.dataset.machine];
  const words = JSON.parse(place.dataset.words);
  const heading = document.createElement("p");
  heading.className = "title";
  heading.textContent = words.title;
  const controls = document.createElement("div");
  controls.className = "controls";
  const drawing = new Drawing(...machine.size);
  const said = document.createElement("p");
  said.className = "said";
  said.setAttribute("aria-live", "polite");
  const sliders = {};

  function show() {
    const values = {};
    for (const [name, { input, output }] of Object.entries(sliders)) {
      values[name] = Number(input.value);
      const written = machine.shown && machine.shown[name] ? machine.shown[name](values[name]) : values[name];
      output.textContent = written;
      input.setAttribute("aria-valuetext", written);
    }
    const numbers = machine.compute(values);
    drawing.clear();
    machine.draw(drawing, numbers, values, words);
    said.textContent = filled(words.says, machine.says(numbers, values));
  }

  for (const control of machine.controls) sliders[control.name] = slider(control, words, controls, show);
  place.replaceChildren(heading, controls, drawing.svg, said);
  place.hidden = false;
  show();
}

if (typeof document !== "undefined") {
  addEventListener("DOMContentLoaded", () => document.querySelectorAll(".machine").forEach(start));
}
