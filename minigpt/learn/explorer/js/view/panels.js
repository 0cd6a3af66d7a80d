// The panels of the page, and the links that lead to them: each has a title, what is seen in it, and what to try.

import { make } from "./make.js";

// names: of the panels, in their order. The words are filled in by `setLanguage`.
export function makePanels(names) {
  const links = names.map((name) => make("a", { href: `#${name}`, "data-word": `${name}.title` }));
  document.querySelector(".contents").replaceChildren(...links);
  document.getElementById("panels").replaceChildren(...names.map(makePanel));
}

function makePanel(name) {
  const title = `${name}-title`;
  const lead = make("strong", { "data-word": "try" });
  const advice = make("span", { "data-word": `${name}.try` });
  return make(
    "section",
    { id: name, class: "panel", "aria-labelledby": title },
    make("h2", { id: title, tabindex: "-1", "data-word": `${name}.title` }),
    make("p", { class: "seen", "data-word": `${name}.seen` }),
    make("p", { class: "try" }, lead, " ", advice),
    make("div", { class: "body" }),
  );
}
