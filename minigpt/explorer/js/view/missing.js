// What a browser must have for this page.

import { word } from "./words.js";

// What this browser lacks, as a sentence; null if nothing.
export function whatIsMissing() {
  if (typeof DecompressionStream === "undefined") return word("missing.decompression");
  if (!document.createElement("canvas").getContext?.("2d")) return word("missing.canvas");
  return null;
}

// The page cannot go on: a sentence in place of all its pictures.
export function fail(sentence) {
  const line = document.getElementById("problem");
  line.textContent = sentence;
  line.hidden = false;
  document.querySelector("main").hidden = true;
}
