// The words of the page in two languages.

import { inAddress } from "./address.js";

const dictionary = { words: { en: {}, ko: {} }, language: "en" };

export function setWords(words) {
  dictionary.words = words;
}

export function language() {
  return dictionary.language;
}

// ?lang=ko, or what the address remembers after #, or what the browser prefers
export function firstLanguage() {
  const asked = new URLSearchParams(location.search).get("lang");
  const wanted = inAddress("lang") || asked || navigator.language || "en";
  return wanted.toLowerCase().startsWith("ko") ? "ko" : "en";
}

export function setLanguage(code) {
  dictionary.language = code;
  document.documentElement.lang = code;
  for (const place of document.querySelectorAll("[data-word]")) place.textContent = word(place.dataset.word);
  for (const place of document.querySelectorAll("[data-label]")) {
    place.setAttribute("aria-label", word(place.dataset.label));
  }
  for (const button of document.querySelectorAll("[data-language]")) {
    button.setAttribute("aria-pressed", String(button.dataset.language === code));
  }
  for (const place of document.querySelectorAll("[data-addresses]")) {
    place.href = JSON.parse(place.dataset.addresses)[code];
  }
  document.title = word("title");
}

// word("pass.tokens", { n: 4 }) -> the sentence in the page's language, {n} filled in
export function word(key, values = {}) {
  const { words, language } = dictionary;
  const sentence = words[language][key] ?? words.en[key] ?? key;
  return sentence.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

// { en, ko } -> the one in the page's language
export function inLanguage(both) {
  return both[dictionary.language] ?? both.en;
}
