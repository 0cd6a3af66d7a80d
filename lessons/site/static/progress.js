// Which lessons a reader has read: kept in the browser, shown beside each link to a lesson, and taken back by the same
// button. Without storage nothing is shown. The words are those of the page, in the attributes of this script.

const KEPT_AS = "minigpt-read"; // in localStorage: ["03", "09"]
const LIST = /\/lessons\/index\.html$/; // the page that lists the lessons
const LESSON = /\/lessons\/(\d\d)_\w+\.html$/;
const { words, lessons } = document.currentScript.dataset;
const says = JSON.parse(words);

function lessonOf(address) {
  return LESSON.exec(new URL(address, location).pathname)?.[1];
}

function kept() {
  try {
    const found = JSON.parse(localStorage.getItem(KEPT_AS) ?? "[]");
    return new Set(Array.isArray(found) ? found : []);
  } catch {
    return new Set(); // another program's text: it is replaced at the next click
  }
}

function hasStorage() {
  try {
    localStorage.setItem(`${KEPT_AS}?`, "");
    localStorage.removeItem(`${KEPT_AS}?`);
    return true;
  } catch {
    return false;
  }
}

function element(name, attributes, text = "") {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

function show(read) {
  for (const mark of document.querySelectorAll(".is-read")) mark.remove();
  const inList = LIST.test(location.pathname) ? ", article td a, article li a" : "";
  for (const link of document.querySelectorAll(`.sidebar-tree a, .contents a${inList}`)) {
    const mark = element("span", { class: "is-read", role: "img", "aria-label": says.read }, " ✓");
    if (read.has(lessonOf(link.href))) link.append(mark);
  }
  const list = document.querySelector(".read-of-all");
  if (list) list.textContent = read.size ? says.count.replace("{read}", read.size).replace("{all}", lessons) : "";
  const button = document.querySelector("button.mark-read");
  if (button) button.setAttribute("aria-pressed", read.has(lessonOf(location)));
}

function change(lesson) {
  const read = kept();
  if (!read.delete(lesson)) read.add(lesson);
  localStorage.setItem(KEPT_AS, JSON.stringify([...read].sort()));
  show(read);
}

function addButton(article) {
  const button = element("button", { class: "mark-read", type: "button" }, says.mark);
  button.addEventListener("click", () => change(lessonOf(location)));
  article.append(button);
}

// --- minutes left of a lesson: those of its core and of the folds that are open, for the part below the screen's end

function minutesIn(text) {
  return Number(/\d+/.exec(text)?.[0] ?? 0);
}

function minutesLeft(article) {
  let all = minutesIn(article.querySelector(".facts").textContent);
  for (const fold of article.querySelectorAll("details[open] > summary > .minutes")) all += minutesIn(fold.textContent);
  const { bottom, height } = article.getBoundingClientRect();
  return Math.ceil(all * Math.min(1, Math.max(0, bottom - innerHeight) / height));
}

function addMinutes(article) {
  const place = element("p", { class: "minutes-left" });
  document.querySelector(".toc-title-container")?.append(place);
  const say = () => { place.textContent = says.left.replace("{minutes}", minutesLeft(article)); };
  for (const event of ["scroll", "resize"]) addEventListener(event, say, { passive: true });
  say();
}

addEventListener("DOMContentLoaded", () => {
  const article = document.querySelector("article");
  if (lessonOf(location) && article) addMinutes(article);
  if (!hasStorage()) return;
  if (lessonOf(location) && article) addButton(article);
  if (LIST.test(location.pathname)) article.querySelector("h1").after(element("p", { class: "read-of-all" }));
  show(kept());
  for (const event of ["storage", "pageshow"]) addEventListener(event, () => show(kept()));
});
