// A token for every character.

import { readable } from "./readable.js";

export class CharTokenizer {
  constructor(spec) {
    this.ids = new Map(Object.entries(spec.vocab));
    this.special = new Set(Object.keys(spec.special));
    this.tokens = [];
    for (const [token, id] of this.ids) {
      this.tokens[id] = token;
    }
  }

  // -> { ids, unknown }: a character that the vocabulary lacks is left out of the ids, and listed once
  encode(text) {
    const ids = [];
    const unknown = new Set();
    for (const character of text) {
      if (this.ids.has(character) && !this.special.has(character)) {
        ids.push(this.ids.get(character));
      } else {
        unknown.add(character);
      }
    }
    return { ids, unknown: [...unknown] };
  }

  decode(ids) {
    return ids.map((id) => this.tokenOfId(id)).join("");
  }

  show(id) {
    return readable(this.tokenOfId(id));
  }

  tokenOfId(id) {
    if (this.tokens[id] === undefined) {
      throw new Error(`token id ${id} is not in this vocabulary of ${this.ids.size}`);
    }
    return this.tokens[id];
  }
}
