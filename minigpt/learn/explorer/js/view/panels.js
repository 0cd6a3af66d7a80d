// The panels of the page, and the links that lead to them: each has a title, what is seen in it, and what to try.

import { make } from "./make.js";

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
