// Text to token ids, by the tokenizer that a model has: one of three kinds.

import { ByteLevelTokenizer } from "./tokenizers/bytes.js";
import { CharTokenizer } from "./tokenizers/characters.js";
import { WordTokenizer } from "./tokenizers/words.js";

const KINDS_OF_TOKENIZER = { "byte-level": ByteLevelTokenizer, char: CharTokenizer, words: WordTokenizer };

// spec: of the page, see `tokenizer_entry` in entries.py
// -> { encode(text) -> { ids, unknown: what the vocabulary lacks }, labels: of each id, how its token is written }
export function openTokenizer(spec) {
  const tokenizer = new KINDS_OF_TOKENIZER[spec.kind](spec);
  return Object.assign(tokenizer, { labels: spec.labels });
}
