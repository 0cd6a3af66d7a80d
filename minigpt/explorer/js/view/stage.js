// The first thing that is seen: the model, drawn as it is. The forward pass plays through it, and the gradient back.

import { showAnswer } from "./answer.js";
import { paintFrame } from "./drawing.js";
import { focusOfPart, makeModel } from "./figure.js";
import { announce, focusOn, make, makeButton } from "./make.js";
import { isPlaying, startPlaying, stopPlaying } from "./player.js";
import { firstBroken, namePart, sayBreak, sayPart, sayPlace } from "./said.js";
import { state } from "./state.js";
import { frontAt, partAt, progressOf, shareOfWay } from "./way.js";
import { word } from "./words.js";

const OPENING = 1.75; // the page opens here: the forward pass is done, and the gradient has come back three quarters

// What is drawn now. models: see makeModel; turn, last: places, see way.js; said: what `show` has said;
// hasMoved: has the reader walked or played already?
const current = { models: [], turn: 0, last: 0, controls: null, said: null, hasMoved: false };

export function drawStage(host, views) {
  const read = views.filter((view) => view.ids.length);
  host.hidden = !read.length;
  if (!read.length) return stopPlaying();
  const { turn, last } = current; // of the drawing before
  current.models = read.map((view, i) => makeModel(view, host.clientWidth, (k) => readPart(i, k)));
  current.turn = Math.max(...current.models.map(({ scene }) => scene.parts.length));
  current.last = read.some((view) => view.pass.loss !== null) ? 2 * current.turn : current.turn;
  for (const model of current.models) model.turn = current.turn;
  if (state.at === last) state.at = current.last;
  else if (state.at === turn) state.at = current.turn;
  current.controls = makeControls();
  current.said = null;
  const figures = current.models.map((model) => model.figure);
  const breaks = current.models.map(sayBreak).filter(Boolean);
  const said = breaks.map((sentence) => make("p", { class: "break", role: "status" }, sentence));
  host.replaceChildren(current.controls.bar, current.controls.line, ...figures, ...said);
  show(Math.min(state.at ?? Math.round(OPENING * current.turn), current.last));
  current.models.forEach(followAcross);
}

function makeControls() {
  const play = makeButton("", "stage.play", playOrStop, { class: "play" });
  const makeStep = (sign, label, to) =>
    makeButton(sign, `stage.${sign}`, () => walkTo(to()), { "aria-label": label, title: label });
  const back = makeStep("←", word("stage.back"), () => Math.ceil(state.at) - 1);
  const on = makeStep("→", word("stage.on"), () => Math.floor(state.at) + 1);
  const slider = make("input", {
    type: "range",
    min: 0,
    max: current.last,
    "aria-label": word("stage.slider"),
    "data-focus": "stage.slider",
    oninput: (event) => moveTo(Number(event.target.value)),
  });
  const count = make("span", { class: "step-count" });
  const line = make("p", { class: "stage-line" });
  const bar = make("div", { class: "stage-bar" }, play, back, on, slider, count);
  return { bar, play, slider, count, line };
}

// --- drawing the pass at a place -------------------------------------------------------------------------------------

function show(place) {
  state.at = place;
  for (const model of current.models) showModel(model, place);
  const step = Math.ceil(place);
  if (current.said === `${step} ${isPlaying()}`) return;
  current.said = `${step} ${isPlaying()}`;
  const { slider, count, line, play } = current.controls;
  const sentence = sayPlace(current.models[0], place);
  slider.value = step;
  slider.setAttribute("aria-valuetext", sentence);
  count.textContent = `${step} / ${current.last}`;
  line.textContent = sentence;
  play.textContent = word(isPlaying() ? "stage.pause" : "stage.play");
  play.classList.toggle("strong", !isPlaying());
}

function showModel(model, place) {
  model.front = frontAt(model, place);
  paintFrame(model.canvas, model.scene, model.front);
  const now = partAt(model, place);
  const progress = progressOf(model, place);
  const isDone = !progress.back && progress.done === progress.count;
  const key = `${now} ${progress.back} ${isDone} ${Math.floor(place)}`;
  if (model.shown === key) return;
  model.shown = key;
  model.buttons.forEach((_, k) => markPart(model, k, k === now, progress));
  model.buttons.at(Math.max(now, 0)).tabIndex = 0;
  showAnswer(model, { ...progress, isDone });
}

// wrong: are gradients of this part wrong, and has the pass come back to it?
function markPart({ buttons, scene, wrong }, k, isNow, { back, done, count }) {
  const isBroken = back && k >= count - Math.floor(done) && wrong[k].length > 0;
  const button = buttons[k];
  button.tabIndex = -1;
  button.toggleAttribute("data-now", isNow);
  button.classList.toggle("broken", isBroken);
  button.classList.toggle("first-broken", isBroken && k === firstBroken(wrong));
  button.setAttribute("aria-label", `${namePart(scene.parts[k])}${isBroken ? `, ${word("stage.broken")}` : ""}`);
}

// The cursor is on a part, or has left it (null): the line tells of it.
function readPart(i, k) {
  const { models, turn, controls } = current;
  controls.line.textContent = k === null ? sayPlace(models[0], state.at) : sayPart(models[i], k, state.at > turn);
}

// --- moving ----------------------------------------------------------------------------------------------------------

function playOrStop() {
  if (isPlaying()) {
    stopPlaying();
    return show(state.at);
  }
  if (state.at === current.last || !current.hasMoved) state.at = 0;
  current.hasMoved = true;
  startPlaying({
    place: () => state.at,
    last: () => current.last,
    turn: () => current.turn,
    lengthAt: (place) => shareOfWay(current.models[0], place),
    show: showAndFollow,
  });
  show(state.at);
}

function moveTo(place) {
  current.hasMoved = true;
  stopPlaying();
  showAndFollow(Math.min(Math.max(place, 0), current.last));
}

// The same by a key or a button: it is said aloud, and the focus goes along where it is on a part.
function walkTo(place) {
  const isOnPart = document.activeElement?.classList.contains("part");
  moveTo(place);
  const [model] = current.models;
  announce(current.controls.line.textContent);
  if (isOnPart) focusOn(focusOfPart(model.view, model.scene.parts[Math.max(partAt(model, state.at), 0)]));
}

// A drawing of many blocks is wider than its box, which scrolls with the pass.
function followAcross({ figure, scene, front }) {
  const box = figure.querySelector(".scroll");
  if (scene.shape.turned || front.at >= scene.shape.along) return;
  const seen = front.at - box.scrollLeft;
  if (seen < 0.25 * box.clientWidth || seen > 0.75 * box.clientWidth) box.scrollLeft = front.at - box.clientWidth / 2;
}

// A turned drawing is longer than the screen, which scrolls with the pass.
function showAndFollow(place) {
  show(place);
  current.models.forEach(followAcross);
  const [{ canvas, scene, front }] = current.models;
  if (!scene.shape.turned) return;
  const at = canvas.getBoundingClientRect().top + front.at;
  const [highest, lowest] = [0.25 * window.innerHeight, 0.75 * window.innerHeight];
  if (at < highest) window.scrollBy(0, at - highest);
  if (at > lowest) window.scrollBy(0, at - lowest);
}

// Arrow keys, wherever the reader is in the stage, or nowhere.
export function pressedOnStage(event) {
  const { target } = event;
  const inStage = target.closest?.("#stage");
  const isOwn = event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey;
  const isNowhere = target === document.body || target.closest?.("header");
  const isElsewhere = (!inStage && !isNowhere) || target.matches("select, input");
  if (isOwn || isElsewhere || !current.models.length) return;
  const step = Math.ceil(state.at);
  const moves = { ArrowRight: step + 1, ArrowLeft: step - 1 };
  if (inStage) Object.assign(moves, { Home: 0, End: current.last });
  if (!(event.key in moves)) return;
  event.preventDefault();
  walkTo(moves[event.key]);
}

// For tests, and for whoever looks with the browser's tools: what is drawn of the first model.
export function drawnSizes() {
  const [{ scene }] = current.models;
  const { parts, sizes, pairs, shape } = scene;
  return { parts, sizes, pairs, shape };
}
