// The text as tokens: buttons in a row, and what could not be read.

import { announce, make, makeChoice, makeMenu, makeToggle, moveAmong, writeNumber } from "./make.js";
import { makeMistakeMenu } from "./mistakes.js";
import { change, state } from "./state.js";
import { inLanguage, word } from "./words.js";

// The strip of tokens; it stays on top of the page.
export function drawTokens(host, views) {
  const view = views[0];
  if (!view.ids.length) {
    host.replaceChildren(make("p", { class: "empty" }, word("tokens.none")));
    return;
  }
  const buttons = makeTokenButtons(view, "token.");
  const label = word("tokens.label");
  const strip = make("div", { class: "tokens", "data-scrolls": "", role: "group", "aria-label": label }, buttons);
  const left = host.querySelector(".tokens")?.scrollLeft ?? 0;
  host.replaceChildren(strip, make("p", { class: "strip-loss" }, sayLoss(view)));
  strip.scrollLeft = left;
  bringIntoSight(strip, buttons[view.position]);
  strip.addEventListener("scroll", () => markEnds(strip));
  markEnds(strip);
}

// Both ends fade where there are more tokens.
function markEnds(strip) {
  strip.classList.toggle("more-left", strip.scrollLeft > 2);
  strip.classList.toggle("more-right", strip.scrollLeft + strip.clientWidth < strip.scrollWidth - 2);
}

// The loss and its target; it stays on top of the page too.
function sayLoss(view) {
  if (view.pass.loss === null) return word("tokens.chosen", { token: view.labels[view.position] });
  const loss = writeNumber(view.pass.loss);
  if (state.lossOf === "all" && view.ids.length > 1) return word("tokens.now_all", { loss });
  return word("tokens.now", { token: view.labels[view.position], target: view.show(view.target), loss });
}

function bringIntoSight(strip, button) {
  const start = button.offsetLeft - strip.offsetLeft;
  const seen = start >= strip.scrollLeft && start + button.offsetWidth <= strip.scrollLeft + strip.clientWidth;
  if (!seen) strip.scrollLeft = start - strip.clientWidth / 2;
}

// where: the beginning of the names under which the buttons keep the focus
export function makeTokenButtons(view, where) {
  return view.labels.map((label, i) => tokenButton(view, label, i, where));
}

function tokenButton(view, label, i, where) {
  const chosen = i === view.position;
  const isTarget = !view.bothSides && i === view.position + 1 && view.ids[i] === view.target;
  const title = word("tokens.one", { token: label, place: i, id: view.ids[i] });
  const last = view.ids.length - 1;
  const [before, after] = [Math.max(i - 1, 0), Math.min(i + 1, last)];
  const moves = { ArrowLeft: before, ArrowUp: before, ArrowRight: after, ArrowDown: after, Home: 0, End: last };
  const focusOf = (place) => `${where}${place}`;
  const more = {
    class: `token${chosen ? " chosen" : ""}${isTarget ? " target" : ""}`,
    tabindex: chosen ? "0" : "-1",
    "aria-label": title,
    title,
    onkeydown: (event) => moveAmong(event, moves, focusOf, choosePosition),
  };
  return makeToggle(focusOf(i), chosen, () => choosePosition(i), more, label);
}

export function choosePosition(i) {
  change({ position: i, target: null, check: null });
}

// A token of the vocabulary as a bar of a list, by which the reader asks for it; ◎ marks the target. See makeBars.
export function tokenBar(view, id, key, bar) {
  const isTarget = id === view.target;
  const ask = () => view.recorded || change({ target: id, lossOf: "one", check: null });
  const button = {
    "data-focus": `${key}.${view.key}.${id}`,
    title: view.recorded ? null : word("lens.ask"),
    "aria-label": bar.label,
    "aria-disabled": view.recorded ? "true" : null,
    onclick: ask,
  };
  const name = `${isTarget ? "◎ " : ""}${view.show(id)}`;
  return { name, part: bar.part, number: bar.number, class: isTarget ? "right" : "", button };
}

// Which model.
export function drawChoices(host, models) {
  const choices = models.map((model, i) => ({ value: String(i), label: inLanguage(model.title) }));
  if (models.length > 1) choices.push({ value: "both", label: word("models.both") });
  const chooseModel = (shown) => change({ shown, check: null });
  host.replaceChildren(makeChoice(word("models.label"), choices, state.shown, chooseModel, "model"));
}

// What the loss is taken of, and which mistake is planted; nothing of it can be asked of a recording.
export function drawQuestions(host, [view]) {
  const sayLossOf = (value) => make("option", { value, selected: value === state.lossOf }, word(`loss.${value}`));
  const chooseLoss = (lossOf) => change({ lossOf, check: null });
  const lossMenu = makeMenu("loss", word("loss.label"), ["one", "all"].map(sayLossOf), chooseLoss);
  const isOpen = view.ids.length && !view.recorded;
  const mistakeMenu = makeMistakeMenu("stage-mistake", { at: Infinity });
  host.replaceChildren(...(isOpen ? [make("div", { class: "menu" }, lossMenu), mistakeMenu] : []));
}

export function sayPosition(view) {
  if (!view?.pass) return;
  announce(sayLoss(view));
}
