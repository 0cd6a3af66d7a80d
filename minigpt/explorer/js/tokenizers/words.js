// GPT-1's tokenizer (GPT-1 section 4.1), of vocabularies that were learned here: text is cleaned and split into words
// by rules; each word is made lower case and merged. The rules, and their tables, are those of
// `minigpt/tokenizer/text.py`.
//
// Of the names of HTML's characters it knows five: &amp; &lt; &gt; &quot; and &nbsp;

import { mergedSymbols, ranksOf } from "./merges.js";
import { Vocabulary } from "./vocabulary.js";

const END_OF_WORD = "</w>";

const ENTITY = /&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|(amp|lt|gt|quot|nbsp));/gu;
const ENTITIES = new Map([["amp", "&"], ["lt", "<"], ["gt", ">"], ["quot", '"'], ["nbsp", "\u00a0"]]);

const PERIODS_AT_THE_END = /\.\.+$/u;

export class WordTokenizer {
  constructor(spec) {
    const { repair, ascii, special, patterns } = spec.rules;
    this.vocabulary = new Vocabulary(spec.vocab, spec.unknown);
    this.ranks = ranksOf(spec.merges);
    this.repair = new Map(Object.entries(repair));
    this.ascii = Object.entries(ascii);
    this.special = new Map(Object.entries(special));
    this.runOfOneMark = new RegExp(patterns.run, "gu");
    this.front = new RegExp(patterns.front, "uy");
    this.back = new RegExp(patterns.back, "gu");
    this.middle = new RegExp(patterns.middle, "u");
  }

  // -> { ids, unknown }: what the vocabulary lacks becomes its unknown token, and is listed once
  encode(text) {
    const symbols = this.clean(text).split(" ").flatMap((chunk) => this.symbolsOfChunk(chunk));
    return this.vocabulary.lookUp(symbols, (symbol) => symbol.replace(/<\/w>$/u, ""));
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
    for (const [mark, written] of this.ascii) {
      plain = plain.replaceAll(mark, written);
    }
    plain = plain.replace(this.runOfOneMark, " $& ");
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
      let innerStart = this.endOfFront(chunk, start, end);
      let innerEnd = this.startOfBack(chunk, innerStart, end);
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
    const words = this.special.get(middle) ?? middle.split(this.middle).filter((part) => part);
    return [...front, ...words, ...back];
  }

  isSpecial(chunk, start, end) {
    return this.special.has(chunk.slice(start, end));
  }

  // Where the mark ends that stands at the front of chunk.slice(start, end).
  endOfFront(chunk, start, end) {
    this.front.lastIndex = start;
    const found = this.front.exec(chunk.slice(0, end));
    return found === null ? start : start + found[0].length;
  }

  // Where the mark begins that stands at the back of chunk.slice(start, end). It may look at what stands before it.
  startOfBack(chunk, start, end) {
    const periods = PERIODS_AT_THE_END.exec(chunk.slice(start, end));
    if (periods !== null) {
      return start + periods.index;
    }
    this.back.lastIndex = start;
    const found = this.back.exec(chunk.slice(0, end));
    return found === null ? end : found.index;
  }
}

function characterOfEntity(whole, decimal, hexadecimal, name) {
  if (name !== undefined) {
    return ENTITIES.get(name);
  }
  const code = decimal === undefined ? parseInt(hexadecimal, 16) : Number(decimal);
  const isCharacter = code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code < 0xe000);
  return isCharacter ? String.fromCodePoint(code) : "\ufffd";
}
