// The table of operations: who calls `ops.layernorm_backward` gets what stands there under this name.
//
// A function that has a twin in the package keeps its name, as split_heads; all others are named in camelCase. Every
// forward and backward pass of an operation or of a block is in the table (modules.py lists them).
//
// Before each pass the right operations are put in; a planted mistake then replaces one of them, also inside the
// composites and the blocks.

export const ops = {};

export function putInTable(functions) {
  Object.assign(ops, functions);
}

// For `keep` of an operation that is called by itself: values are handed on, and nothing is recorded.
export function keepNothing(name, value) {
  return value;
}
