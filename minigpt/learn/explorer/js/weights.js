// Weights of 16 bits, as the page holds them: base64 of deflated bytes, first all low bytes, then all high bytes.

import { Tensor, sizeOf } from "./tensor.js";

// model: { parameters: [{ name, shape, offset }], dtype, weights } of the page -> Map(name -> Tensor)
export async function readWeights(model) {
  const bytes = await inflate(bytesOfBase64(model.weights));
  const numbers = numbersOf(joinPlanes(bytes), model.dtype);
  const parameters = new Map();
  for (const { name, shape, offset } of model.parameters) {
    const end = offset + sizeOf(shape);
    if (end > numbers.length) {
      throw new Error(`${name} ends at number ${end}, and the weights have ${numbers.length}: the page is damaged`);
    }
    parameters.set(name, new Tensor(numbers.slice(offset, end), shape));
  }
  return parameters;
}

export function bytesOfBase64(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < bytes.length; i++) {
    bytes[i] = letters.charCodeAt(i);
  }
  return bytes;
}

export async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// bytes: n low ones, then n high ones -> n numbers of 16 bits
export function joinPlanes(bytes) {
  const n = bytes.length / 2;
  const joined = new Uint16Array(n);
  for (let i = 0; i < n; i++) {
    joined[i] = bytes[i] | (bytes[n + i] << 8);
  }
  return joined;
}

export function numbersOf(halves, dtype) {
  if (dtype === "bfloat16") {
    return fromBfloat16(halves);
  }
  if (dtype === "float16") {
    return Float64Array.from(halves, fromFloat16);
  }
  throw new Error(`weights of the type ${dtype} are not known here: expected bfloat16 or float16`);
}

// A bfloat16 is the upper half of a float32.
export function fromBfloat16(halves) {
  const words = new Uint32Array(halves.length);
  for (let i = 0; i < halves.length; i++) {
    words[i] = halves[i] << 16;
  }
  return Float64Array.from(new Float32Array(words.buffer));
}

// A float16 has a sign bit, 5 bits of the exponent and 10 of the fraction (IEEE 754).
export function fromFloat16(bits) {
  const sign = bits >> 15 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = (bits & 1023) / 1024;
  if (exponent === 0) {
    return sign * fraction * 2 ** -14;
  }
  if (exponent === 31) {
    return fraction === 0 ? sign * Infinity : NaN;
  }
  return sign * (1 + fraction) * 2 ** (exponent - 15);
}
