// What is wrong with the page in which this runs. pages.py makes the body of one function of it, which returns
// faultsOfPage(): a list of sentences. Contrast is at least 4.5, and 3 for large text.

const UNSEEN = "script, style, noscript, template, textarea, option, mjx-assistive-mml, annotation, title, desc";
const LITERAL = "pre, code, kbd, samp, script, style, textarea, .output, .cell_output, .cell_input, [data-literal]";
const TEX = /\$\$|\\\(|\\\[|\\begin\{|\\(?:frac|sum|sqrt|mathrm|mathbf|text|cdot|partial|operatorname)\b/;
const MAY_SCROLL = ["pre, code, table, .highlight, .output, .cell_output, .math, mjx-container, .table-wrapper",
  "[data-scrolls]"].join(", ");
const NOT_TYPED_INTO = "[type=hidden], [type=range], [type=checkbox], [type=radio]";
const faults = new Set();

async function faultsOfPage() {
  await ready();
  await checkPictures();
  checkTexts();
  checkTex();
  checkWidth();
  return [...faults];
}

function short(text) {
  return text.trim().replace(/\s+/g, " ").slice(0, 50);
}

function named(element) {
  const given = typeof element.className === "string" ? element.className : "";
  const classes = given.trim().split(/\s+/).filter(Boolean).slice(0, 2);
  const tag = element.tagName.toLowerCase() + (element.id ? "#" + element.id : "");
  return [tag, ...classes].join(".");
}

function quoted(element, text) {
  return `${named(element)} "${short(text)}"`;
}

// --- what scripts draw is there, TeX is ready, pictures are loaded

async function ready() {
  if (document.querySelector("script[type=module]")) await quiet(500, 10_000);
  if (window.MathJax?.startup?.promise) await window.MathJax.startup.promise;
}

// No change of the page for so many milliseconds; it waits no longer than the limit.
function quiet(milliseconds, limit) {
  return new Promise((done) => {
    let timer = setTimeout(done, milliseconds);
    const observer = new MutationObserver(() => {
      clearTimeout(timer);
      timer = setTimeout(done, milliseconds);
    });
    observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
    setTimeout(done, limit);
  });
}

async function checkPictures() {
  const pictures = [...document.images];
  for (const picture of pictures) picture.loading = "eager";
  await Promise.all(pictures.map(loaded));
  for (const picture of pictures) {
    const address = (picture.getAttribute("src") ?? "").slice(0, 80);
    if (picture.naturalWidth === 0) faults.add(`picture not loaded: ${address}`);
    if (!picture.alt && picture.getAttribute("role") !== "presentation") faults.add(`missing alt text: ${address}`);
  }
}

function loaded(picture) {
  return picture.complete || new Promise((done) => {
    picture.addEventListener("load", done);
    picture.addEventListener("error", done);
    setTimeout(done, 5000);
  });
}

// --- colours: [red, green, blue, alpha], 0 to 1

const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const colors = new Map();  // text -> its colour

function color(text) {
  if (!colors.has(text)) colors.set(text, parsed(text));
  return colors.get(text);
}

function parsed(text) {
  const numbers = text.match(/^rgba?\(([^)]*)\)$/)?.[1].split(/[\s,/]+/).map(Number);
  if (numbers?.every(Number.isFinite)) return [...numbers.slice(0, 3).map((v) => v / 255), numbers[3] ?? 1];
  context.canvas.width = context.canvas.height = 1;
  context.fillStyle = text;
  context.fillRect(0, 0, 1, 1);
  return [...context.getImageData(0, 0, 1, 1).data].map((v) => v / 255);
}

function over(front, back) {
  const alpha = front[3] + back[3] * (1 - front[3]);
  if (alpha === 0) return [0, 0, 0, 0];
  const mixed = [0, 1, 2].map((i) => (front[i] * front[3] + back[i] * back[3] * (1 - front[3])) / alpha);
  return [...mixed, alpha];
}

function luminance(rgb) {
  const [r, g, b] = rgb.map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(one, other) {
  const [low, high] = [luminance(one.slice(0, 3)), luminance(other.slice(0, 3))].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

// --- what lies behind an element: its own background and those of its parents; a gradient counts with each colour

const styles = new Map();  // element -> its computed style
const layers = new Map();  // element -> its layer; one that paints nothing is in the layer of its parent
const canvas = canvasColor();

function style(element) {
  if (!styles.has(element)) styles.set(element, getComputedStyle(element));
  return styles.get(element);
}

function canvasColor() {
  const probe = document.createElement("div");
  probe.style.color = "Canvas";
  document.body.append(probe);
  const found = color(getComputedStyle(probe).color);
  probe.remove();
  return found;
}

function layer(element) {
  if (!element) return null;
  if (!layers.has(element)) {
    const parent = layer(element.parentElement);
    layers.set(element, paintsNothing(element) && parent ? parent : newLayer(element, parent));
  }
  return layers.get(element);
}

function paintsNothing(element) {
  const { backgroundColor, backgroundImage, opacity } = style(element);
  return backgroundImage === "none" && opacity === "1" && color(backgroundColor)[3] === 0;
}

function newLayer(element, parent) {
  const { backgroundColor, backgroundImage, opacity } = style(element);
  const gradient = backgroundImage.includes("gradient");
  const stops = (gradient && backgroundImage.match(/(?:rgba?|color|hsla?|oklch|oklab|lab)\([^()]*\)/g)) || [];
  const back = color(backgroundColor);
  const backgrounds = stops.length ? stops.map((stop) => over(color(stop), back)) : [back];
  return { parent, backgrounds, opacity: Number(opacity), ratios: new Map() };
}

// The lowest contrast of a text of this colour in this layer.
function lowest(text, first) {
  let pairs = [[text, [0, 0, 0, 0]]];
  for (let at = first; at; at = at.parent) {
    const fade = (rgba) => [...rgba.slice(0, 3), rgba[3] * at.opacity];
    const next = at.backgrounds.flatMap((back) => pairs.map(([t, b]) => [fade(over(t, back)), fade(over(b, back))]));
    pairs = next.slice(0, 16);
  }
  return Math.min(...pairs.map(([t, b]) => contrast(over(t, canvas), over(b, canvas))));
}

function contrastOf(paint, element) {
  const own = layer(element);
  if (!own.ratios.has(paint)) own.ratios.set(paint, lowest(color(paint), own));
  return own.ratios.get(paint);
}

// --- every text that can be seen

function checkTexts() {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const judged = new Set();
  while (walker.nextNode()) {
    const text = walker.currentNode.data;
    const element = walker.currentNode.parentElement;
    if (!text.trim() || element.closest(UNSEEN)) continue;
    if (TEX.test(text) && !element.closest(LITERAL)) faults.add(`raw TeX: ${quoted(element, text)}`);
    if (judged.has(element) || element.closest(":disabled, [aria-disabled=true]") || !seen(element)) continue;
    judged.add(element);
    checkContrast(element, text);
  }
  for (const input of document.querySelectorAll(`input:not(${NOT_TYPED_INTO}), textarea, select`)) {
    if (!input.disabled && seen(input)) checkContrast(input, input.value || input.placeholder || "");
  }
}

function seen(element) {
  if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) return false;
  const box = element.getBoundingClientRect();
  return box.width > 1 && box.height > 1;  // 1 pixel: for screen readers only
}

function checkContrast(element, text) {
  const computed = style(element);
  const inSvg = element.ownerSVGElement;
  const paint = inSvg ? computed.fill : computed.color;
  const shape = inSvg ? shapeBehind(element) : null;
  const ratio = shape ? contrast(over(color(paint), shape), shape) : contrastOf(paint, element);
  const size = parseFloat(computed.fontSize);
  const large = size >= 24 || (size >= 18.66 && Number(computed.fontWeight) >= 700);
  if (ratio < (large ? 3 : 4.5) - 0.005) faults.add(`contrast ${ratio.toFixed(2)}: ${quoted(element, text)}`);
}

// The colour behind the text of an SVG: of the last shape that is painted before it, under its middle.
function shapeBehind(element) {
  const box = element.getBoundingClientRect();
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  let behind = null;
  for (const shape of element.ownerSVGElement.querySelectorAll("rect, circle, ellipse, path, polygon")) {
    if (shape.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_PRECEDING) break;
    const area = shape.getBoundingClientRect();
    const inside = area.left <= x && x <= area.right && area.top <= y && y <= area.bottom;
    const fill = getComputedStyle(shape).fill;
    if (inside && /^(?:rgb|color|hsl)/.test(fill)) behind = color(fill);
  }
  return behind;
}

function checkTex() {
  const error = document.querySelector("mjx-merror, [data-mjx-error]");
  if (error) faults.add(`TeX error: ${error.getAttribute("data-mjx-error") ?? short(error.textContent)}`);
  for (const math of document.querySelectorAll(".math")) {
    const drawn = math.querySelector("mjx-container, math, svg");
    if (!math.closest("pre") && !drawn) faults.add(`raw TeX: "${short(math.textContent)}"`);
  }
}

// --- nothing scrolls sideways but code, output, tables and formulas, each in its own box

function checkWidth() {
  const width = document.documentElement.scrollWidth;
  if (width > innerWidth) {
    const element = tooWide();
    const why = quoted(element, element.textContent);
    faults.add(`scrolls sideways: the page is ${width} px wide, because of ${why}`);
  }
  for (const element of document.body.querySelectorAll("*")) {
    const wide = element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0;
    const scrolls = wide && /auto|scroll/.test(style(element).overflowX);
    if (!scrolls || /^(?:INPUT|TEXTAREA|SELECT)$/.test(element.tagName)) continue;
    const may = element.closest(MAY_SCROLL) || element.querySelector(MAY_SCROLL);
    if (!may) faults.add(`scrolls sideways: ${quoted(element, element.textContent)}`);
  }
}

// The last element that sticks out of the page, and that no parent cuts off.
function tooWide() {
  let found = document.body;
  for (const element of document.body.querySelectorAll("*")) {
    const sticksOut = element.getBoundingClientRect().right + scrollX > innerWidth + 0.5;
    if (sticksOut && !isCutOff(element)) found = element;
  }
  return found;
}

function isCutOff(element) {
  for (let at = element.parentElement; at && at !== document.body; at = at.parentElement) {
    if (/auto|scroll|hidden|clip/.test(style(at).overflowX)) return true;
  }
  return false;
}
