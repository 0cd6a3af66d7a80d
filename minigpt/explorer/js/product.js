// Matrix products: nearly all of the time of a pass is spent here.
//
// The three forms that a linear layer needs, x w, dout w^T and x^T dout, are one sum,
//
//     out[r,c] = sum_k a[r,k] b[k,c],
//
// and differ only in where the next number lies in memory. `sumOfProducts` is told so by steps: a[r,k] lies at
// r * a.row + k * a.k, and b[k,c] at k * b.k + c * b.column.

import { Tensor } from "./tensor.js";

// a (R,K), b (K,C) -> a b (R,C)
export function product(a, b) {
  const [R, K] = a.shape;
  const [, C] = b.shape;
  return sumOfProducts(R, K, C, { data: a.data, row: K, k: 1 }, { data: b.data, k: C, column: 1 });
}

// a (R,K), b (C,K) -> a b^T (R,C)
export function productWithTransposed(a, b) {
  const [R, K] = a.shape;
  const [C] = b.shape;
  return sumOfProducts(R, K, C, { data: a.data, row: K, k: 1 }, { data: b.data, k: 1, column: K });
}

// a (K,R), b (K,C) -> a^T b (R,C)
export function productOfTransposed(a, b) {
  const [K, R] = a.shape;
  const [, C] = b.shape;
  return sumOfProducts(R, K, C, { data: a.data, row: 1, k: R }, { data: b.data, k: C, column: 1 });
}

// The one fast loop. It computes tiles of 2 rows and 4 columns: 8 sums stay in the processor's registers, and the 6
// numbers that are read for each k serve 16 operations instead of 2. At the edge of the matrix the last row, or column,
// stands in for those that are not there: the same number is computed again, and written to the same place again.
export function sumOfProducts(R, K, C, a, b) {
  const out = new Float64Array(R * C);
  const A = a.data;
  const B = b.data;
  const stepA = a.k;
  const stepB = b.k;
  for (let r0 = 0; r0 < R; r0 += 2) {
    const r1 = Math.min(r0 + 1, R - 1);
    for (let c0 = 0; c0 < C; c0 += 4) {
      const c1 = Math.min(c0 + 1, C - 1);
      const c2 = Math.min(c0 + 2, C - 1);
      const c3 = Math.min(c0 + 3, C - 1);
      let s00 = 0, s01 = 0, s02 = 0, s03 = 0;
      let s10 = 0, s11 = 0, s12 = 0, s13 = 0;
      // where a[r,0] and b[0,c] lie
      let i0 = r0 * a.row, i1 = r1 * a.row;
      let j0 = c0 * b.column, j1 = c1 * b.column, j2 = c2 * b.column, j3 = c3 * b.column;
      for (let k = 0; k < K; k++) {
        const x0 = A[i0], x1 = A[i1];
        const y0 = B[j0], y1 = B[j1], y2 = B[j2], y3 = B[j3];
        s00 += x0 * y0; s01 += x0 * y1; s02 += x0 * y2; s03 += x0 * y3;
        s10 += x1 * y0; s11 += x1 * y1; s12 += x1 * y2; s13 += x1 * y3;
        i0 += stepA; i1 += stepA;
        j0 += stepB; j1 += stepB; j2 += stepB; j3 += stepB;
      }
      const o0 = r0 * C, o1 = r1 * C;
      out[o0 + c0] = s00; out[o0 + c1] = s01; out[o0 + c2] = s02; out[o0 + c3] = s03;
      out[o1 + c0] = s10; out[o1 + c1] = s11; out[o1 + c2] = s12; out[o1 + c3] = s13;
    }
  }
  return new Tensor(out, [R, C]);
}
