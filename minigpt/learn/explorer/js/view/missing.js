// What a browser must have for this page.

import { word } from "./words.js";

// What this browser lacks, as a sentence; null if nothing.
export function whatIsMissing() {
  if (typeof DecompressionStream === "undefined") return word("missing.decompression");
  if (!document.createElement("canvas").getContext?.("2d")) return word("missing.canvas");
  if (typeof IntersectionObserver === "undefined") return word("missing.observer");
  return null;
}
