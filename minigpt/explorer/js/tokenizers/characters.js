// A token for every character.

import { Vocabulary } from "./vocabulary.js";

export class CharTokenizer {
  constructor(spec) {
    const characters = Object.entries(spec.vocab).filter(([token]) => !Object.hasOwn(spec.special, token));
    this.vocabulary = new Vocabulary(Object.fromEntries(characters));
  }

  // -> { ids, unknown }: a character that the vocabulary lacks is left out of the ids, and listed once
  encode(text) {
    return this.vocabulary.lookUp([...text]);
  }
}
