// A link into a fold opens it, and so does a search; on paper all folds are open.

function openAt() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  let fold = target.querySelector(":scope > details.deeper") || target.closest("details.deeper");
  for (; fold; fold = fold.parentElement.closest("details.deeper")) fold.open = true;
  target.scrollIntoView();
}

addEventListener("DOMContentLoaded", openAt);
addEventListener("hashchange", openAt);
addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='#']");
  if (link && link.getAttribute("href") === location.hash) setTimeout(openAt); // no hashchange: it is there already
});
addEventListener("beforeprint", () => {
  for (const fold of document.querySelectorAll("article details")) fold.open = true;
});
