// GPT-1's tokenizer (GPT-1 section 4.1), of vocabularies that were learned here: text is cleaned and split into words
// by rules; each word is made lower case and merged. The rules, and their tables, are those of
// `minigpt/tokenizer/text.py`.
//
// Of the names of HTML's characters it knows five: &amp; &lt; &gt; &quot; and &nbsp;

import { mergedSymbols, ranksOf } from "./merges.js";
import { readable } from "./readable.js";

const END_OF_WORD = "</w>";

// What text_standardize of OpenAI's code writes in ASCII, and the marks of which a run gets spaces around it.
const IN_ASCII = new Map([["—", "-"], ["–", "-"], ["―", "-"], ["…", "..."], ["´", "'"]]);
const NOT_ASCII = /[—–―…´]/gu;
const RUN_OF_ONE_MARK = /([-~!";?+,)(/*[\]}{|_])\1*/gu;
const ENTITY = /&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|(amp|lt|gt|quot|nbsp));/gu;
const ENTITIES = new Map([["amp", "&"], ["lt", "<"], ["gt", ">"], ["quot", '"'], ["nbsp", "\u00a0"]]);

// What a word is split at: at its front, at its back, and inside.
const LOWER = "\\p{Ll}\\p{Lo}"; // scripts without capitals, such as Hangul, count as both
const UPPER = "\\p{Lu}\\p{Lo}";
const QUOTES = "'\"`‘’‚“”„«»「」『』【】《》〈〉";
const MARKS = ":;,!?¿¡()[\\]{}<>#&*_؟。、·،।۔؛٪…";
const UNITS = "[kdcmn]?m[²³]?|ha|yd|in|ft|[km]?g|µg|t|lb|oz|kmh|mph|h?Pa|mbar|[mkgt]b|[MKGT]B?|%";
const FRONT = new RegExp(`\\.\\.+|''|[§%=\\p{Sc}\\p{So}${MARKS}${QUOTES}]`, "uy");
const BACK = new RegExp(
  `(?:''|'[sS]|[\\p{So}${MARKS}${QUOTES}]|(?<=[0-9])(?:\\p{Sc}|${UNITS})` +
    `|(?<=[0-9${LOWER}%²${MARKS}${QUOTES}])\\.|(?<=[${UPPER}][${UPPER}])\\.)$`,
  "gu",
);
const PERIODS_AT_THE_END = /\.\.+$/u;
const MIDDLE = new RegExp(
  `(\\.\\.+|\\p{So}|(?<=[0-9])\\^(?=[0-9])|(?<=[${LOWER}${QUOTES}])\\.(?=[${UPPER}${QUOTES}])` +
    "|(?<=[\\p{L}0-9])[:<>=](?=\\p{L}))",
  "u",
);

export class WordTokenizer {
  constructor(spec) {
    this.ids = new Map(Object.entries(spec.vocab));
    this.unknown = spec.unknown;
    this.ranks = ranksOf(spec.merges);
    this.repair = new Map(Object.entries(spec.rules.repair));
    this.special = new Map(Object.entries(spec.rules.special));
    this.tokens = [];
    for (const [token, id] of this.ids) {
      this.tokens[id] = token;
    }
  }

  // -> { ids, unknown }: what the vocabulary lacks becomes its unknown token, and is listed once
  encode(text) {
    const ids = [];
    const unknown = new Set();
    for (const symbol of this.clean(text).split(" ").flatMap((chunk) => this.symbolsOfChunk(chunk))) {
      if (!this.ids.has(symbol)) {
        unknown.add(withoutEnd(symbol));
      }
      ids.push(this.ids.get(symbol) ?? this.unknown);
    }
    return { ids, unknown: [...unknown] };
  }

  // Lower-case text with a space after each word; line ends come back.
  decode(ids) {
    const spelled = (token) => (endsWord(token) ? `${withoutEnd(token)} ` : token);
    const joined = ids.map((id) => spelled(this.token(id))).join("");
    return joined.replace(/ ?\n ?/gu, "\n").replace(/^ +| +$/gu, "");
  }

  // A token for people: ␣ marks the end of a word, ⏎ is a line end.
  show(id) {
    const token = this.token(id);
    return readable(withoutEnd(token)) + (endsWord(token) && token !== `\n${END_OF_WORD}` ? "␣" : "");
  }

  token(id) {
    if (this.tokens[id] === undefined) {
      throw new Error(`token id ${id} is not in this vocabulary of ${this.ids.size}`);
    }
    return this.tokens[id];
  }

  symbolsOfChunk(chunk) {
    return this.splitWords(chunk).flatMap((word) => this.merged(word.toLowerCase()));
  }

  // The end of the word belongs to its last symbol.
  merged(word) {
    const symbols = [...word];
    symbols.push(symbols.pop() + END_OF_WORD);
    return mergedSymbols(symbols, this.ranks);
  }

  // Chunks between single spaces: straight quotes, plain line ends, a space around every run of one mark.
  clean(text) {
    let plain = text.includes("<") ? text : text.replace(ENTITY, characterOfEntity);
    plain = plain.replace(/\r\n?/gu, "\n").replace(/\p{Surrogate}/gu, "\ufffd");
    const repaired = Array.from(plain, (character) => this.repair.get(character) ?? character);
    plain = repaired.join("").normalize("NFC");
    plain = plain.replace(NOT_ASCII, (mark) => IN_ASCII.get(mark)).replace(RUN_OF_ONE_MARK, " $& ");
    plain = plain.replace(/(?<!\s)\s*\n\s*/gu, " \n ");
    return plain.replace(/[^\S\n ][^\S\n]*| [^\S\n]+/gu, " ").trim();
  }

  // The words of a chunk: she'd've gives she 'd 've.
  splitWords(chunk) {
    const front = [];
    const back = []; // from the last word to the first
    let start = 0; // chunk.slice(start, end) is what has not been split yet
    let end = chunk.length;
    while (start < end && !this.isSpecial(chunk, start, end)) {
      let innerStart = endOfFront(chunk, start, end);
      let innerEnd = startOfBack(chunk, innerStart, end);
      if (innerStart === start && innerEnd === end) {
        break;
      }
      if (innerStart > start && this.isSpecial(chunk, innerStart, end)) {
        innerEnd = end; // the mark at the back belongs to the word
      } else if (innerEnd < end && this.isSpecial(chunk, start, innerEnd)) {
        innerStart = start; // so does the one at the front: 'em
      }
      if (innerStart > start) {
        front.push(chunk.slice(start, innerStart));
      }
      if (innerEnd < end) {
        back.unshift(chunk.slice(innerEnd, end));
      }
      start = innerStart;
      end = innerEnd;
    }
    const middle = chunk.slice(start, end);
    const words = this.special.get(middle) ?? middle.split(MIDDLE).filter((part) => part);
    return [...front, ...words, ...back];
  }

  isSpecial(chunk, start, end) {
    return this.special.has(chunk.slice(start, end));
  }
}

// Where the mark ends that stands at the front of chunk.slice(start, end).
function endOfFront(chunk, start, end) {
  FRONT.lastIndex = start;
  const found = FRONT.exec(chunk.slice(0, end));
  return found === null ? start : start + found[0].length;
}

// Where the mark begins that stands at the back of chunk.slice(start, end). It may look at what stands before `start`.
function startOfBack(chunk, start, end) {
  const periods = PERIODS_AT_THE_END.exec(chunk.slice(start, end));
  if (periods !== null) {
    return start + periods.index;
  }
  BACK.lastIndex = start;
  const found = BACK.exec(chunk.slice(0, end));
  return found === null ? end : found.index;
}

function characterOfEntity(whole, decimal, hexadecimal, name) {
  if (name !== undefined) {
    return ENTITIES.get(name);
  }
  const code = decimal === undefined ? parseInt(hexadecimal, 16) : Number(decimal);
  const isCharacter = code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code < 0xe000);
  return isCharacter ? String.fromCodePoint(code) : "\ufffd";
}

function endsWord(token) {
  return token.endsWith(END_OF_WORD);
}

function withoutEnd(token) {
  return endsWord(token) ? token.slice(0, -END_OF_WORD.length) : token;
}
