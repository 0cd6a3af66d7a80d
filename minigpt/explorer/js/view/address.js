// What the address keeps after "#": the language, and the text of the reader. Who gets the address sees the same.

function afterHash() {
  return new URLSearchParams(location.hash.slice(1));
}

export function inAddress(name) {
  return afterHash().get(name);
}

export function keepInAddress(name, value) {
  const address = afterHash();
  address.set(name, value);
  history.replaceState(null, "", `#${address}`);
}
