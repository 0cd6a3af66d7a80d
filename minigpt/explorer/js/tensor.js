// Numbers with a shape, row after row, in double precision.

export class Tensor {
  // data: Float64Array; shape: the sizes of the axes; the last axis runs fastest
  constructor(data, shape) {
    this.data = data;
    this.shape = shape;
  }

  // Row t of a tensor (T,C): a view, so that what is written there arrives in the tensor.
  row(t) {
    const C = this.shape[1];
    return this.data.subarray(t * C, (t + 1) * C);
  }

  // Part i along the first axis, as head i of (NH,T,D): a view (T,D).
  part(i) {
    const shape = this.shape.slice(1);
    const size = sizeOf(shape);
    return new Tensor(this.data.subarray(i * size, (i + 1) * size), shape);
  }

  copy() {
    return new Tensor(this.data.slice(), this.shape);
  }
}

export function sizeOf(shape) {
  return shape.reduce((product, size) => product * size, 1);
}

export function zeros(shape) {
  return new Tensor(new Float64Array(sizeOf(shape)), shape);
}

// x (*), factor -> x * factor (*)
export function scaled(x, factor) {
  const out = zeros(x.shape);
  for (let i = 0; i < out.data.length; i++) {
    out.data[i] = x.data[i] * factor;
  }
  return out;
}

// x (R,C) -> x^T (C,R), a copy
export function transposed(x) {
  const [R, C] = x.shape;
  const out = zeros([C, R]);
  for (let r = 0; r < R; r++) {
    for (let c = 0; c < C; c++) {
      out.data[c * R + r] = x.data[r * C + c];
    }
  }
  return out;
}
