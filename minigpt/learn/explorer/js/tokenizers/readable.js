// Tokens for people: white space, control characters and single bytes are made visible.

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
function firstCharacter(bytes, strict) {
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
