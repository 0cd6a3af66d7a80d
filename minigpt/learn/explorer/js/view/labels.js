// How a token is named in a sentence.

import { word } from "./words.js";

// “␣dog”; with its position where the text has this token more than once
export function labelAt(view, i) {
  const token = view.labels[i];
  const isAlone = view.labels.indexOf(token) === view.labels.lastIndexOf(token);
  return isAlone ? `“${token}”` : word("tokens.at", { token, place: i });
}
