// The page begins here: it opens the models, listens to the reader, and draws the panels that are in sight.

import { finiteDifference, lens, openModels, runPass } from "../session.js";
import { inAddress, keepInAddress } from "./address.js";
import { drawAttention } from "./attention.js";
import { drawBackward } from "./backward.js";
import { bringCheckIntoSight } from "./check.js";
import { drawDepth } from "./depth.js";
import { drawInspect } from "./inspect.js";
import { drawLens } from "./lens.js";
import { drawMistakes, namedMistakes, nameMistakes } from "./mistakes.js";
import { drawNotes } from "./notes.js";
import { focusOn } from "./make.js";
import { fail, whatIsMissing } from "./missing.js";
import { closeInPlace, makePanels } from "./panels.js";
import { firstPlace, lastPlace, makeViews } from "./passes.js";
import { openRecordings } from "./recordings.js";
import { drawStage, drawnSizes, pressedOnStage } from "./stage.js";
import { change, onChange, state } from "./state.js";
import { drawStream } from "./stream.js";
import { drawChoices, drawQuestions, drawTokens, sayPosition } from "./tokens.js";
import { firstLanguage, setLanguage, setWords, word } from "./words.js";

const PANELS = {
  lens: drawLens,
  attention: drawAttention,
  stream: drawStream,
  backward: drawBackward,
  inspect: drawInspect,
  mistakes: drawMistakes,
  depth: drawDepth,
};
const TYPING = 60; // milliseconds without a key before the text is computed

const page = {
  panels: [], // the names of those that are shown
  sources: [], // the models of the page; or, of a recorded page, what was recorded
  views: [],
  inSight: new Set(),
  dirty: new Set(["head", "stage"]),
  planned: false,
  typing: null,
  goTo: null,
  slow: false, // did the last picture take long?
};

// Draw on the next frame, once, however many choices changed.
function plan(what = ["head", "stage", ...page.panels]) {
  for (const name of what) page.dirty.add(name);
  if (page.planned) return;
  page.planned = true;
  document.body.classList.toggle("busy", page.slow);
  const start = page.slow ? requestAnimationFrame : (paint) => paint(); // a frame more, so that "busy" is seen
  requestAnimationFrame(() => start(drawNow));
}

function drawNow() {
  page.planned = false;
  const started = performance.now();
  const line = document.getElementById("problem");
  try {
    draw();
    line.hidden = true;
  } catch (error) {
    line.textContent = `${word("missing.drawing")} ${error.message}`;
    line.hidden = false;
    console.error(error);
  }
  page.slow = performance.now() - started > 700;
  document.body.classList.remove("busy");
}

function draw() {
  const focus = document.activeElement?.dataset?.focus;
  const before = page.views[0];
  page.views = makeViews(page.sources);
  const [view] = page.views;
  if (page.dirty.delete("head")) drawHead();
  if (page.dirty.delete("stage")) drawStage(document.getElementById("stage"), page.views);
  document.getElementById("panels").hidden = !view.ids.length;
  for (const name of page.dirty) {
    if (page.inSight.has(name) && (view.ids.length || name === "depth")) drawPanel(name);
  }
  if (focus) focusOn(focus, { preventScroll: true });
  if (page.goTo) goToPanel(page.goTo);
  bringCheckIntoSight();
  if (before && view.pass && before.pass !== view.pass) sayPosition(view);
}

function drawHead() {
  drawTokens(document.getElementById("strip"), page.views);
  drawChoices(document.getElementById("choices"), page.sources);
  drawQuestions(document.getElementById("questions"), page.views);
  drawNotes(document.getElementById("notes"), page.views);
}

function drawPanel(name) {
  page.dirty.delete(name);
  PANELS[name](document.querySelector(`#${name} .body`), page.views);
}

// The panels above are drawn first, so that nothing moves while the page scrolls.
function goToPanel(name) {
  page.goTo = null;
  closeInPlace();
  for (const above of page.panels.slice(0, page.panels.indexOf(name) + 1)) {
    if (page.dirty.has(above)) drawPanel(above);
  }
  const panel = document.getElementById(name);
  panel.scrollIntoView();
  panel.querySelector("h2").focus({ preventScroll: true });
}

// Which panels need a new picture when these choices change.
function panelsOf(choices) {
  const keys = Object.keys(choices);
  const only = (...names) => keys.length > 0 && keys.every((key) => names.includes(key));
  if (only("step") || !keys.length) return ["backward"];
  if (only("block", "head")) return ["attention"];
  if (only("tensor", "slice", "check", "allChanges")) return ["attention", "inspect", "mistakes"];
  return ["head", "stage", "lens", "attention", "stream", "backward", "inspect", "mistakes"];
}

function watchPanels() {
  const watcher = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        const name = entry.target.id;
        if (entry.isIntersecting) page.inSight.add(name);
        else page.inSight.delete(name);
      }
      plan([]);
    },
    { rootMargin: "200px" },
  );
  for (const name of page.panels) {
    page.dirty.add(name);
    watcher.observe(document.getElementById(name));
  }
}

function listenToReader() {
  const box = document.getElementById("text");
  box.value = state.text;
  box.addEventListener("input", () => {
    clearTimeout(page.typing);
    page.typing = setTimeout(() => setText(box.value), TYPING);
  });
  for (const button of document.querySelectorAll("[data-language]")) {
    button.addEventListener("click", () => chooseLanguage(button.dataset.language));
  }
  for (const link of document.querySelectorAll(".contents a, .skip")) {
    const name = link.getAttribute("href").slice(1);
    link.addEventListener("click", (event) => {
      event.preventDefault(); // the address keeps the language and the text
      return name in PANELS ? goToPanel(name) : focusOn("stage.play");
    });
  }
  document.addEventListener("keydown", pressedOnStage);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plan());
  document.documentElement.toggleAttribute("data-framed", window.self !== window.top);
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width) plan();
    width = window.innerWidth;
  });
  window.addEventListener("beforeprint", () => {
    for (const name of page.panels) {
      if (page.dirty.has(name)) drawPanel(name);
    }
  });
}

function setText(text) {
  keepInAddress("text", text);
  const atEnd = state.position >= page.views[0].ids.length - 2;
  change({
    text,
    target: null,
    check: null,
    position: atEnd ? lastPlace(page.views[0].model, text) : state.position,
  });
}

function chooseLanguage(code) {
  setLanguage(code);
  keepInAddress("lang", code);
  plan();
}

async function begin() {
  const json = JSON.parse(document.getElementById("models").textContent);
  page.panels = json.panels;
  makePanels(page.panels, json.site);
  setWords(json.words);
  nameMistakes(json.mistakes);
  setLanguage(firstLanguage());
  const missing = whatIsMissing();
  if (missing) return fail(missing);
  page.sources = json.recorded ? await openRecordings(json.recorded) : await openModels(json);
  if (json.recorded) beginRecorded(json.text);
  else beginLive(json.text);
  onChange((choices, goTo) => {
    page.goTo = goTo ?? page.goTo;
    plan(panelsOf(choices));
  });
  listenToReader();
  watchPanels();
  document.getElementById("loading").hidden = true;
  draw();
}

function beginRecorded(text) {
  state.text = text;
  document.getElementById("text").readOnly = true;
  state.lossOf = "all";
  state.position = Math.max(page.sources[0].ids.length - 2, 0);
}

function beginLive(text) {
  state.text ||= inAddress("text") ?? text;
  state.position = firstPlace(page.sources[0], state.text);
}

const explorer = {
  state,
  change,
  mistakes: namedMistakes,
  runPass,
  finiteDifference,
  lens,
  get models() {
    return page.sources.filter((one) => !one.recorded);
  },
  views: () => page.views,
  drawn: drawnSizes,
};
explorer.ready = begin()
  .then(() => explorer)
  .catch((error) => {
    fail(`${word("missing.failed")} ${error.message}`);
    throw error;
  });
window.minigptExplorer = explorer;
