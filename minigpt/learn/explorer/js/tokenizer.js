// Text to token ids and back: byte-level byte-pair encoding (GPT-2 section 2.2), and characters.
//
// The tokenizer of the released GPT-1 is not here: its words come from libraries of another language.

// The words of a text, as OpenAI's pattern finds them. It is written for Python, where \s is Unicode's white space:
// JavaScript's own \s counts U+FEFF too, and leaves U+0085 out.
export const WORD = new RegExp(
  [
    /'s|'t|'re|'ve|'m|'ll|'d/, // the end of a contraction
    / ?\p{L}+/u, // letters, and the space before them
    / ?\p{N}+/u, // digits
    / ?[^\p{White_Space}\p{L}\p{N}]+/u, // marks
    /\p{White_Space}+(?!\P{White_Space})/u, // white space, without the last one where a word follows
    /\p{White_Space}+/u,
  ]
    .map((part) => part.source)
    .join("|"),
  "gu",
);

export const HALF_OF_A_PAIR = /\p{Surrogate}/gu; // half a surrogate pair: no character, so it has no UTF-8

// spec: { kind, vocab: {token: id}, merges: ["a b", ...], special: {token: id} } of the page
export function openTokenizer(spec) {
  if (spec.kind === "byte-level") {
    return new ByteLevelTokenizer(spec);
  }
  if (spec.kind === "char") {
    return new CharTokenizer(spec);
  }
  throw new Error(`a tokenizer of the kind ${spec.kind} is not known here: expected byte-level or char`);
}

export class ByteLevelTokenizer {
  constructor(spec) {
    this.ids = new Map(Object.entries(spec.vocab));
    this.special = new Set(namesOfSpecial(spec));
    this.prefixSpace = spec.prefix_space === true;
    this.ranks = new Map(spec.merges.map((pair, rank) => [pair, rank]));
    this.characterOf = charactersOfBytes();
    this.byteOf = new Map(this.characterOf.map((character, byte) => [character, byte]));
    this.bytes = [];
    for (const [token, id] of this.ids) {
      this.bytes[id] = this.bytesOf(token);
    }
    this.remembered = new Map(); // word -> its symbols
  }

  // -> { ids, unknown }: what the vocabulary lacks is left out of the ids, and listed once
  //
  // A text that spells a special token is plain text.
  encode(text) {
    const unknown = new Set(text.match(HALF_OF_A_PAIR));
    text = text.replace(HALF_OF_A_PAIR, "");
    if (this.prefixSpace && text !== "" && !text.startsWith(" ")) {
      text = " " + text;
    }
    const ids = [];
    for (const word of text.match(WORD) ?? []) {
      if (!this.remembered.has(word)) {
        this.remembered.set(word, this.symbolsOf(word));
      }
      for (const symbol of this.remembered.get(word)) {
        if (this.ids.has(symbol)) {
          ids.push(this.ids.get(symbol));
        } else {
          unknown.add(wholeCharacters(this.bytesOf(symbol)));
        }
      }
    }
    return { ids, unknown: [...unknown] };
  }

  // The text of any ids. Bytes that are no UTF-8, as in half a character, become U+FFFD.
  decode(ids) {
    const bytes = ids.flatMap((id) => [...this.bytesOfId(id)]);
    return decodeUtf8(Uint8Array.from(bytes));
  }

  // A token for people: ␣ is a space, ⏎ a line end, \xea a byte that is no whole character.
  show(id) {
    return readable(wholeCharacters(this.bytesOfId(id)));
  }

  // The symbols of a word after all merges: again and again the pair that was learnt first is joined, everywhere.
  symbolsOf(word) {
    let symbols = [...this.spell(word)];
    while (symbols.length > 1) {
      const pair = this.firstLearnt(symbols);
      if (pair === null) {
        break;
      }
      symbols = joinPair(symbols, pair);
    }
    return symbols;
  }

  // Of the pairs of neighbours the one that was learnt first, as [left, right]; null where none was learnt.
  firstLearnt(symbols) {
    let best = null;
    let lowest = Infinity;
    for (let i = 0; i + 1 < symbols.length; i++) {
      const rank = this.ranks.get(`${symbols[i]} ${symbols[i + 1]}`);
      if (rank < lowest) {
        lowest = rank;
        best = [symbols[i], symbols[i + 1]];
      }
    }
    return best;
  }

  // A character for each byte of the word: " é" gives "ĠÃ©".
  spell(word) {
    const bytes = new TextEncoder().encode(word);
    return Array.from(bytes, (byte) => this.characterOf[byte]).join("");
  }

  bytesOf(token) {
    if (this.special.has(token)) {
      return new TextEncoder().encode(token);
    }
    return Uint8Array.from(token, (character) => this.byteOf.get(character));
  }

  bytesOfId(id) {
    if (this.bytes[id] === undefined) {
      throw new Error(`token id ${id} is not in this vocabulary of ${this.ids.size}`);
    }
    return this.bytes[id];
  }
}

// A token for every character.
export class CharTokenizer {
  constructor(spec) {
    this.ids = new Map(Object.entries(spec.vocab));
    this.special = new Set(namesOfSpecial(spec));
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

// special: {token: id}, a list of tokens, or nothing -> the tokens
export function namesOfSpecial(spec) {
  const special = spec.special ?? {};
  return Array.isArray(special) ? special : Object.keys(special);
}

// The character that each byte is written as in the vocabulary (OpenAI's `bytes_to_unicode`): the 188 bytes that
// Latin-1 prints are written as that; the other 68, in order, as U+0100 and those after it.
export function charactersOfBytes() {
  const characters = [];
  let next = 256;
  for (let byte = 0; byte < 256; byte++) {
    const printable = (33 <= byte && byte <= 126) || (161 <= byte && byte <= 172) || 174 <= byte;
    characters.push(String.fromCodePoint(printable ? byte : next));
    if (!printable) {
      next += 1;
    }
  }
  return characters;
}

// Join every occurrence of a pair, from left to right: a a a with the pair (a, a) is aa a.
export function joinPair(symbols, [left, right]) {
  const joined = [];
  let i = 0;
  while (i < symbols.length) {
    if (symbols[i] === left && symbols[i + 1] === right) {
      joined.push(left + right);
      i += 2;
    } else {
      joined.push(symbols[i]);
      i += 1;
    }
  }
  return joined;
}

// The text of bytes; a byte order mark is a character like any other.
export function decodeUtf8(bytes) {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
}

// The text of bytes, with those that belong to no whole character as \xea.
export function wholeCharacters(bytes) {
  const strict = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });
  let text = "";
  let start = 0;
  while (start < bytes.length) {
    const found = firstCharacter(bytes.subarray(start), strict);
    if (found === null) {
      text += "\\x" + bytes[start].toString(16).padStart(2, "0");
      start += 1;
    } else {
      text += found.character;
      start += found.length;
    }
  }
  return text;
}

// The character that the bytes begin with, which has 1 to 4 of them, and its length; null where there is none.
export function firstCharacter(bytes, strict) {
  for (let length = 1; length <= Math.min(4, bytes.length); length++) {
    try {
      return { character: strict.decode(bytes.subarray(0, length)), length };
    } catch {
      continue; // not a whole character yet
    }
  }
  return null;
}

// A text with its white space and control characters visible.
export function readable(text) {
  const visible = text.replaceAll(" ", "␣").replaceAll("\n", "⏎").replaceAll("\t", "⇥");
  return visible.replace(/[\p{Cc}\p{Cf}\p{White_Space}]/gu, (character) => {
    const code = character.codePointAt(0).toString(16).toUpperCase();
    return `U+${code.padStart(4, "0")}`;
  });
}
