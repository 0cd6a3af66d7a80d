// Numbers with a shape, row after row.

export class Tensor {
  // data: Float64Array; shape: sizes of the axes, the last one runs fastest
  constructor(data, shape) {
    this.data = data;
    this.shape = shape;
  }
}
