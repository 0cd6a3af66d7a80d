// Weights of 16 bits, as the page holds them: base64 of deflated bytes, first all low bytes, then all high bytes.

import { Tensor, sizeOf } from "./tensor.js";

// model: { parameters: [{ name, shape, offset }], dtype, weights } of the page -> Map(name -> Tensor)
export async function readWeights(model) {
  const bytes = await inflate(bytesOfBase64(model.weights));
  const numbers = numbersOf(joinPlanes(bytes), model.dtype);
  const parameters = new Map();
  for (const { name, shape, offset } of model.parameters) {
    parameters.set(name, new Tensor(numbers.slice(offset, offset + sizeOf(shape)), shape));
  }
  return parameters;
}

export function bytesOfBase64(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
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

// dtype: "bfloat16" | "float16"
export function numbersOf(halves, dtype) {
  return dtype === "bfloat16" ? fromBfloat16(halves) : Float64Array.from(halves, fromFloat16);
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
