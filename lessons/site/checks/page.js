// Runs inside of a page: a list of what is wrong with it, in words. {dark, small}: contrast 4.5, and 3 for large text.
async () => {
  const faults = new Set();
  const short = (text) => text.trim().replace(/\s+/g, " ").slice(0, 50);
  const name = (element) => {
    const classes = typeof element.className === "string" ? element.className.trim().split(/\s+/).filter(Boolean) : [];
    return [element.tagName.toLowerCase() + (element.id ? "#" + element.id : ""), ...classes.slice(0, 2)].join(".");
  };

  // --- what scripts draw is there, TeX is ready, pictures are loaded
  const quiet = (milliseconds, limit) => new Promise((done) => {  // no change of the page for so long
    let timer = setTimeout(done, milliseconds);
    const observer = new MutationObserver(() => {
      clearTimeout(timer);
      timer = setTimeout(done, milliseconds);
    });
    observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
    setTimeout(done, limit);
  });
  if (document.querySelector("script[type=module]")) await quiet(500, 10_000);
  if (window.MathJax?.startup?.promise) await window.MathJax.startup.promise;
  const pictures = [...document.images];
  for (const picture of pictures) picture.loading = "eager";
  const loaded = (picture) => picture.complete || new Promise((done) => {
    picture.addEventListener("load", done);
    picture.addEventListener("error", done);
    setTimeout(done, 5000);
  });
  await Promise.all(pictures.map(loaded));
  for (const picture of pictures) {
    if (picture.naturalWidth === 0) faults.add(`picture not loaded: ${(picture.getAttribute("src") ?? "").slice(0, 80)}`);
    if (!picture.alt && picture.getAttribute("role") !== "presentation") {
      faults.add(`missing alt text: ${(picture.getAttribute("src") ?? "").slice(0, 80)}`);
    }
  }

  // --- colours: [red, green, blue, alpha], 0 to 1
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const parse = (text) => {
    const numbers = text.match(/^rgba?\(([^)]*)\)$/)?.[1].split(/[\s,/]+/).map(Number);
    if (numbers?.every(Number.isFinite)) return [...numbers.slice(0, 3).map((v) => v / 255), numbers[3] ?? 1];
    context.canvas.width = context.canvas.height = 1;
    context.fillStyle = text;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data].map((v) => v / 255);
  };
  const color = (text) => {
    if (!known.has(text)) known.set(text, parse(text));
    return known.get(text);
  };
  const over = (front, back) => {
    const alpha = front[3] + back[3] * (1 - front[3]);
    if (alpha === 0) return [0, 0, 0, 0];
    const mixed = [0, 1, 2].map((i) => (front[i] * front[3] + back[i] * back[3] * (1 - front[3])) / alpha);
    return [...mixed, alpha];
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };

  // --- what lies behind an element: its own background and those of its parents; a gradient counts with each colour
  const styles = new Map();
  const style = (element) => {
    if (!styles.has(element)) styles.set(element, getComputedStyle(element));
    return styles.get(element);
  };
  const layers = new Map();  // element -> its layer; one that paints nothing is in the layer of its parent
  const layer = (element) => {
    if (!element) return null;
    if (layers.has(element)) return layers.get(element);
    const { backgroundColor, backgroundImage, opacity } = style(element);
    const parent = layer(element.parentElement);
    let own = parent;
    if (!parent || backgroundImage !== "none" || opacity !== "1" || color(backgroundColor)[3] > 0) {
      const gradient = backgroundImage.includes("gradient");
      const stops = (gradient && backgroundImage.match(/(?:rgba?|color|hsla?|oklch|oklab|lab)\([^()]*\)/g)) || [];
      const back = color(backgroundColor);
      const backgrounds = stops.length ? stops.map((stop) => over(color(stop), back)) : [back];
      own = { parent, backgrounds, opacity: Number(opacity), ratios: new Map() };
    }
    layers.set(element, own);
    return own;
  };
  const probe = document.createElement("div");
  probe.style.color = "Canvas";
  document.body.append(probe);
  const canvas = color(getComputedStyle(probe).color);
  probe.remove();
  const lowest = (text, first) => {  // the lowest contrast of a text of this colour in this layer
    let pairs = [[text, [0, 0, 0, 0]]];
    for (let at = first; at; at = at.parent) {
      const fade = (rgba) => [...rgba.slice(0, 3), rgba[3] * at.opacity];
      const next = at.backgrounds.flatMap((back) => pairs.map(([t, b]) => [fade(over(t, back)), fade(over(b, back))]));
      pairs = next.slice(0, 16);
    }
    return Math.min(...pairs.map(([t, b]) => contrast(over(t, canvas).slice(0, 3), over(b, canvas).slice(0, 3))));
  };
  const worst = (paint, element) => {
    const own = layer(element);
    if (!own.ratios.has(paint)) own.ratios.set(paint, lowest(color(paint), own));
    return own.ratios.get(paint);
  };

  // --- every text that can be seen
  const UNSEEN = "script, style, noscript, template, textarea, option, mjx-assistive-mml, annotation, title, desc";
  const LITERAL = "pre, code, kbd, samp, script, style, textarea, .output, .cell_output, .cell_input, [data-literal]";
  const TEX = /\$\$|\\\(|\\\[|\\begin\{|\\(?:frac|sum|sqrt|mathrm|mathbf|text|cdot|partial|operatorname)\b/;
  const seen = (element) => {
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) return false;
    const box = element.getBoundingClientRect();
    return box.width > 1 && box.height > 1;  // 1 pixel: for screen readers only
  };
  const drawn = (element) => {  // text of an SVG: the last shape that is painted before it, under its middle
    const box = element.getBoundingClientRect();
    const middle = [box.x + box.width / 2, box.y + box.height / 2];
    let behind = null;
    for (const shape of element.ownerSVGElement.querySelectorAll("rect, circle, ellipse, path, polygon")) {
      if (shape.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_PRECEDING) break;
      const area = shape.getBoundingClientRect();
      const inside = area.left <= middle[0] && middle[0] <= area.right && area.top <= middle[1] && middle[1] <= area.bottom;
      const fill = getComputedStyle(shape).fill;
      if (inside && /^(?:rgb|color|hsl)/.test(fill)) behind = color(fill);
    }
    return behind;
  };
  const judge = (element, text, shown) => {
    const computed = style(element);
    const inSvg = element.ownerSVGElement;
    const paint = inSvg ? computed.fill : computed.color;
    const shape = inSvg ? drawn(element) : null;
    const ratio = shape ? contrast(over(color(paint), shape).slice(0, 3), shape.slice(0, 3)) : worst(paint, element);
    const size = parseFloat(computed.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(computed.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5) - 0.005) {
      faults.add(`contrast ${ratio.toFixed(2)}: ${name(element)} "${short(shown ?? text)}"`);
    }
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const judged = new Set();
  while (walker.nextNode()) {
    const text = walker.currentNode.data;
    const element = walker.currentNode.parentElement;
    if (!text.trim() || element.closest(UNSEEN)) continue;
    if (TEX.test(text) && !element.closest(LITERAL)) faults.add(`raw TeX: ${name(element)} "${short(text)}"`);
    if (judged.has(element) || element.closest(":disabled, [aria-disabled=true]") || !seen(element)) continue;
    judged.add(element);
    judge(element, text);
  }
  for (const input of document.querySelectorAll("input:not([type=hidden], [type=range], [type=checkbox], [type=radio]), textarea, select")) {
    if (!input.disabled && seen(input)) judge(input, input.value, input.value || input.placeholder);
  }
  if (document.querySelector("mjx-merror, [data-mjx-error]")) {
    const error = document.querySelector("mjx-merror, [data-mjx-error]");
    faults.add(`TeX error: ${error.getAttribute("data-mjx-error") ?? short(error.textContent)}`);
  }
  for (const math of document.querySelectorAll(".math")) {
    if (!math.closest("pre") && !math.querySelector("mjx-container, math, svg")) faults.add(`raw TeX: "${short(math.textContent)}"`);
  }

  // --- nothing scrolls sideways but code, output, tables and formulas, each in its own box
  const MAY = "pre, code, table, .highlight, .output, .cell_output, .math, mjx-container, .table-wrapper, [data-scrolls]";
  const scrolls = (element) => /auto|scroll/.test(style(element).overflowX);
  const hides = (element) => /auto|scroll|hidden|clip/.test(style(element).overflowX);
  if (document.documentElement.scrollWidth > innerWidth) {
    let culprit = document.body;
    for (const element of document.body.querySelectorAll("*")) {
      const sticksOut = element.getBoundingClientRect().right + scrollX > innerWidth + 0.5;
      let at = element.parentElement;
      while (sticksOut && at !== document.body && at && !hides(at)) at = at.parentElement;
      if (sticksOut && (at === document.body || !at)) culprit = element;
    }
    faults.add(`scrolls sideways: the page is ${document.documentElement.scrollWidth} px wide, because of ${name(culprit)} "${short(culprit.textContent)}"`);
  }
  for (const element of document.body.querySelectorAll("*")) {
    const wide = element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0;
    if (!wide || !scrolls(element) || /^(?:INPUT|TEXTAREA|SELECT)$/.test(element.tagName)) continue;
    if (!element.closest(MAY) && !element.querySelector(MAY)) faults.add(`scrolls sideways: ${name(element)} "${short(element.textContent)}"`);
  }
  return [...faults];
}
