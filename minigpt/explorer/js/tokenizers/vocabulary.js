// The vocabulary of a tokenizer: symbols become ids.

export class Vocabulary {
  // ids: {token: id}; unknown: the id of what is missing, or null: then it is left out of the ids
  constructor(ids, unknown = null) {
    this.ids = new Map(Object.entries(ids));
    this.unknown = unknown;
  }

  // -> { ids, unknown }: what the vocabulary lacks is listed once, under the name that nameOf(symbol) gives it
  lookUp(symbols, nameOf = (symbol) => symbol) {
    const ids = symbols.map((symbol) => this.ids.get(symbol) ?? this.unknown);
    const missing = symbols.filter((symbol) => !this.ids.has(symbol)).map(nameOf);
    return { ids: ids.filter((id) => id !== null), unknown: [...new Set(missing)] };
  }
}
