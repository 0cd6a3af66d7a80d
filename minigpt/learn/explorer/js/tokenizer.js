// Text to token ids and back, by the tokenizer that a model has: one of three kinds.

import { ByteLevelTokenizer } from "./tokenizers/bytes.js";
import { CharTokenizer } from "./tokenizers/characters.js";
import { WordTokenizer } from "./tokenizers/words.js";

const KINDS_OF_TOKENIZER = { "byte-level": ByteLevelTokenizer, char: CharTokenizer, words: WordTokenizer };

// spec: { kind, vocab: {token: id}, merges: ["a b", ...], special: {token: id} } of the page; of the kind "words" also
// unknown: id, rules: { repair: {character: what stands for it}, special: {chunk: [its words]} }
// -> { encode(text) -> { ids, unknown: what the vocabulary lacks }, decode(ids) -> text, show(id) -> text for people }
export function openTokenizer(spec) {
  if (!Object.hasOwn(KINDS_OF_TOKENIZER, spec.kind)) {
    const known = Object.keys(KINDS_OF_TOKENIZER).join(", ");
    throw new Error(`a tokenizer of the kind ${spec.kind} is not known here: expected one of ${known}`);
  }
  return new KINDS_OF_TOKENIZER[spec.kind](spec);
}
