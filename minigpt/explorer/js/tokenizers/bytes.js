// Byte-level byte-pair encoding (GPT-2 section 2.2): text to token ids.

import { mergedSymbols, ranksOf } from "./merges.js";
import { Vocabulary } from "./vocabulary.js";

const HALF_OF_A_PAIR = /\p{Surrogate}/gu; // half a surrogate pair: no character, so it has no UTF-8

export class ByteLevelTokenizer {
  constructor(spec) {
    this.vocabulary = new Vocabulary(spec.vocab);
    this.ranks = ranksOf(spec.merges);
    this.prefixSpace = spec.prefix_space;
    this.characterOf = spec.rules.bytes; // of each byte, as the vocabulary writes it
    this.word = new RegExp(spec.rules.word, "gu");
    this.remembered = new Map(); // word -> its symbols
  }

  // -> { ids, unknown }: what the vocabulary lacks is left out of the ids, and listed once
  //
  // A text that spells a special token is plain text.
  encode(text) {
    const halves = text.match(HALF_OF_A_PAIR) ?? [];
    text = text.replace(HALF_OF_A_PAIR, "");
    if (this.prefixSpace && text !== "" && !text.startsWith(" ")) {
      text = " " + text;
    }
    const symbols = (text.match(this.word) ?? []).flatMap((word) => this.symbolsOf(word));
    const { ids, unknown } = this.vocabulary.lookUp(symbols, (symbol) => this.nameOf(symbol));
    return { ids, unknown: [...new Set([...halves, ...unknown])] };
  }

  symbolsOf(word) {
    if (!this.remembered.has(word)) {
      const spelled = Array.from(new TextEncoder().encode(word), (byte) => this.characterOf[byte]);
      this.remembered.set(word, mergedSymbols(spelled, this.ranks));
    }
    return this.remembered.get(word);
  }

  // The bytes of a symbol for people: those of ASCII as they are, another as \xc3.
  nameOf(symbol) {
    const bytes = Array.from(symbol, (character) => this.characterOf.indexOf(character));
    return bytes.map((byte) => (byte < 128 ? String.fromCharCode(byte) : `\\x${byte.toString(16)}`)).join("");
  }
}
