// The page begins here: it opens the models, listens to the reader, and draws the panels that are in sight.

import { finiteDifference, lens, mistakes, openModels, probabilities, runPass } from "../session.js";
import { drawAttention } from "./attention.js";
import { drawBackward } from "./backward.js";
import { verdictOf } from "./check.js";
import { drawDepth } from "./depth.js";
import { drawInspect } from "./inspect.js";
import { drawLens } from "./lens.js";
import { drawMistakes } from "./mistakes.js";
import { makeViews, readText, rowOf } from "./passes.js";
import { openRecordings } from "./recordings.js";
import { change, onChange, state } from "./state.js";
import { drawStream } from "./stream.js";
import { drawChoices, drawNotes, drawTokens, sayPosition } from "./tokens.js";
import { firstLanguage, language, setLanguage, setWords, word } from "./words.js";

const PANELS = {
  lens: drawLens,
  attention: drawAttention,
  stream: drawStream,
  backward: drawBackward,
  inspect: drawInspect,
  mistakes: drawMistakes,
  depth: drawDepth,
};
const TYPING = 120; // milliseconds without a key before the text is computed

const page = {
  models: [],
  recordings: [],
  views: [],
  inSight: new Set(),
  dirty: new Set(["head"]),
  planned: false,
  typing: null,
  goTo: null,
};

// Draw on the next frame, once, however many choices changed.
function plan(what = ["head", ...Object.keys(PANELS)]) {
  for (const name of what) page.dirty.add(name);
  if (page.planned) return;
  page.planned = true;
  requestAnimationFrame(() => {
    page.planned = false;
    draw();
  });
}

function draw() {
  const focus = document.activeElement?.dataset?.focus;
  const before = page.views[0];
  page.views = makeViews(page.models, page.recordings);
  const [view] = page.views;
  if (page.dirty.delete("head")) drawHead();
  document.getElementById("panels").hidden = !view.ids.length;
  for (const name of page.dirty)
    if (page.inSight.has(name) && (view.ids.length || name === "depth")) drawPanel(name);
  if (focus) document.querySelector(`[data-focus="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true });
  if (page.goTo) goToPanel(page.goTo);
  if (before && view.pass && before.pass !== view.pass) sayPosition(view);
}

function drawHead() {
  drawTokens(document.getElementById("strip"), page.views);
  drawChoices(
    document.getElementById("choices"),
    page.views,
    page.recordings.length ? page.recordings : page.models,
  );
  drawNotes(document.getElementById("notes"), page.views);
}

function drawPanel(name) {
  page.dirty.delete(name);
  PANELS[name](document.querySelector(`#${name} .body`), page.views);
}

// The panels above are drawn first, so that nothing moves while the page scrolls.
function goToPanel(name) {
  page.goTo = null;
  const names = Object.keys(PANELS);
  for (const above of names.slice(0, names.indexOf(name) + 1)) if (page.dirty.has(above)) drawPanel(above);
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
  if (only("check")) return ["attention", "inspect", "mistakes"];
  if (only("tensor", "slice", "check", "goTo")) return ["attention", "inspect", "mistakes"];
  return ["head", "lens", "attention", "stream", "backward", "inspect", "mistakes"];
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
  for (const name of Object.keys(PANELS)) {
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
    link.addEventListener("click", (event) => {
      event.preventDefault(); // the address keeps the language
      goToPanel(link.getAttribute("href").slice(1));
    });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plan());
  new MutationObserver(() => plan()).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width) plan();
    width = window.innerWidth;
  });
  window.addEventListener("beforeprint", () => {
    for (const name of [...page.dirty]) drawPanel(name);
  });
}

function setText(text) {
  const atEnd = state.position >= page.views[0].ids.length - 2;
  change({ text, target: null, check: null, position: atEnd ? lastPlace(text) : state.position });
}

// The last token that has one after it, so that there is something to compare with.
function lastPlace(text) {
  const model = page.models[Number(state.shown)] ?? page.models[0];
  if (!model) return 0;
  const room = model.config.n_positions;
  return Math.max(Math.min(model.tokenizer.encode(text).ids.length, room) - 2, 0);
}

// Where the page begins: the last token after which the model is neither sure nor lost, so that there is a gradient.
function firstPlace(text) {
  const [model] = page.models;
  const { ids } = readText(model, text);
  if (ids.length < 2) return 0;
  const p = probabilities(runPass(model, ids, { backward: false }).logits);
  const open = (t) => rowOf(p, t)[ids[t + 1]] > 0.05 && rowOf(p, t)[ids[t + 1]] < 0.7;
  for (let t = ids.length - 2; t >= 2; t--) if (open(t)) return t;
  return ids.length - 2;
}

function chooseLanguage(code) {
  setLanguage(code);
  history.replaceState(null, "", `#lang=${code}`);
  for (const button of document.querySelectorAll("[data-language]")) {
    button.setAttribute("aria-pressed", String(button.dataset.language === code));
  }
  document.querySelector("#depth .body").replaceChildren();
  plan();
}

// What this browser lacks, as a sentence; null if nothing.
function whatIsMissing() {
  if (typeof DecompressionStream === "undefined") return word("missing.decompression");
  if (!document.createElement("canvas").getContext?.("2d")) return word("missing.canvas");
  if (typeof IntersectionObserver === "undefined") return word("missing.observer");
  return null;
}

function fail(sentence) {
  const line = document.getElementById("problem");
  line.textContent = sentence;
  line.hidden = false;
  document.querySelector("main").hidden = true;
}

async function begin() {
  const json = JSON.parse(document.getElementById("models").textContent);
  setWords(json.words);
  setLanguage(firstLanguage());
  const missing = whatIsMissing();
  if (missing) return fail(missing);
  page.recordings = await openRecordings(json.recorded);
  page.models = page.recordings.length ? [] : await openModels(json);
  if (!page.models.length && !page.recordings.length) return fail(word("missing.models"));
  state.text = page.recordings.length ? json.text : state.text || json.text;
  document.getElementById("text").readOnly = page.recordings.length > 0;
  if (page.recordings.length) state.lossOf = "all";
  state.position = page.recordings.length
    ? Math.max(page.recordings[0].tokens.length - 2, 0)
    : firstPlace(state.text);
  onChange((choices) => {
    page.goTo = choices.goTo ?? page.goTo;
    plan(panelsOf(choices));
  });
  listenToReader();
  watchPanels();
  for (const button of document.querySelectorAll("[data-language]")) {
    button.setAttribute("aria-pressed", String(button.dataset.language === language()));
  }
  document.getElementById("loading").hidden = true;
  draw();
  return page.models;
}

const explorer = {
  state,
  change,
  mistakes,
  runPass,
  finiteDifference,
  lens,
  verdictOf,
  models: page.models,
  views: () => page.views,
  draw,
};
explorer.ready = begin()
  .then((models) => {
    explorer.models = models ?? [];
    return explorer;
  })
  .catch((error) => {
    fail(`${word("missing.failed")} ${error.message}`);
    throw error;
  });
window.minigptExplorer = explorer;
