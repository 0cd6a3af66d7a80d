// Byte-level byte-pair encoding (GPT-2 section 2.2): text to token ids and back.

import { mergedSymbols, ranksOf } from "./merges.js";
import { readable, wholeCharacters } from "./readable.js";

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

export class ByteLevelTokenizer {
  constructor(spec) {
    this.ids = new Map(Object.entries(spec.vocab));
    this.special = new Set(namesOfSpecial(spec));
    this.prefixSpace = spec.prefix_space === true;
    this.ranks = ranksOf(spec.merges);
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
        this.remembered.set(word, mergedSymbols([...this.spell(word)], this.ranks));
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

// special: {token: id}, a list of tokens, or nothing -> the tokens
function namesOfSpecial(spec) {
  const special = spec.special ?? {};
  return Array.isArray(special) ? special : Object.keys(special);
}

// The character that each byte is written as in the vocabulary (OpenAI's `bytes_to_unicode`): the 188 bytes that
// Latin-1 prints are written as that; the other 68, in order, as U+0100 and those after it.
function charactersOfBytes() {
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

// The text of bytes; a byte order mark is a character like any other.
function decodeUtf8(bytes) {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
}
