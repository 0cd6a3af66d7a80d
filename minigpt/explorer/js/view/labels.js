// How tokens are named in a sentence.

import { word } from "./words.js";

// “␣dog”; with its position where the text has this token more than once
function labelAt(view, i) {
  const token = view.labels[i];
  const isAlone = view.labels.indexOf(token) === view.labels.lastIndexOf(token);
  return isAlone ? `“${token}”` : word("tokens.at", { token, place: i });
}

// The tokens at these places, each with its number: “␣dog” 0.12, “␣cat” 0.05
export function nameTokens(view, places, numberOf) {
  return places.map((i) => `${labelAt(view, i)} ${numberOf(i)}`).join(", ");
}
