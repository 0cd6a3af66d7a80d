// The panels of the page, and the links that lead to them: each has a title, what is seen in it, and what to try.

import { focusOn, make } from "./make.js";
import { word } from "./words.js";

const opened = { panel: null, next: null, focus: null }; // below the stage: a panel, and what it was opened from

// names: of the panels, in their order. The words and addresses are filled in by `setLanguage`.
// site: where the page lies in the site of the course: { home, lessons: { panel: { number, address } } }, each address
// in both languages; or null, of a page that stands alone and leads nowhere
export function makePanels(names, site) {
  const home = document.querySelector(".home");
  home.hidden = !site;
  if (site) home.dataset.addresses = JSON.stringify(site.home);
  const links = names.map((name) => make("a", { href: `#${name}`, "data-word": `${name}.title` }));
  document.querySelector(".contents").replaceChildren(...links);
  document.getElementById("panels").replaceChildren(...names.map((name) => makePanel(name, site?.lessons[name])));
}

function makePanel(name, lesson) {
  const title = `${name}-title`;
  const lead = make("strong", { "data-word": "try" });
  const advice = make("span", { "data-word": `${name}.try` });
  return make(
    "section",
    { id: name, class: "panel", "aria-labelledby": title },
    make("h2", { id: title, tabindex: "-1", "data-word": `${name}.title` }),
    make("p", { class: "seen", "data-word": `${name}.seen` }),
    make("p", { class: "try" }, lead, " ", advice),
    lesson ? makeLessonLink(lesson) : null,
    make("div", { class: "body" }),
  );
}

function makeLessonLink({ number, address }) {
  const label = make("span", { "data-word": "site.lesson" });
  const link = make("a", { "data-addresses": JSON.stringify(address) }, label, ` ${number}`);
  return make("p", { class: "note" }, link);
}

// A panel below the stage, in place of its own, until it is closed. title: of the box it was opened from; focus: that
// box, as in makeButton
export function openInPlace(name, title, focus) {
  closeInPlace();
  const place = document.getElementById("opened");
  const panel = document.getElementById(name);
  Object.assign(opened, { panel, focus, next: panel.nextSibling });
  const close = make("button", { type: "button", class: "small", onclick: leave }, `× ${word("stage.close")}`);
  place.replaceChildren(make("p", { class: "opened-title" }, make("strong", {}, title), close), panel);
  place.hidden = false;
  place.onkeydown = (event) => event.key === "Escape" && leave();
  requestAnimationFrame(() => {
    const from = place.getBoundingClientRect().top;
    if (from > 0.5 * window.innerHeight) window.scrollBy(0, from - 0.5 * window.innerHeight);
    panel.querySelector("h2").focus({ preventScroll: true });
  });
}

function leave() {
  closeInPlace();
  focusOn(opened.focus);
}

// The panel goes back to its own place.
export function closeInPlace() {
  const { panel, next } = opened;
  if (!panel) return;
  document.getElementById("panels").insertBefore(panel, next);
  document.getElementById("opened").hidden = true;
  opened.panel = null;
}
