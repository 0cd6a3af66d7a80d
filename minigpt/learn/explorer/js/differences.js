// The slope of a loss by finite differences: no derivative, only two forward passes.

// lossAt: a function of one number, the loss when that number is added -> { plus, minus, numeric }
//
// numeric = (loss(+eps) - loss(-eps)) / (2 eps): a central difference, whose error is of the order of eps^2.
export function centralDifference(lossAt, eps) {
  const plus = lossAt(eps);
  const minus = lossAt(-eps);
  const numeric = (plus - minus) / (2 * eps);
  return { plus, minus, numeric };
}

// |numeric - analytic| divided by the larger of both; 0 where they differ by no more than the noise.
export function relativeError(numeric, analytic, noise) {
  const difference = Math.abs(numeric - analytic);
  if (difference <= noise) {
    return 0;
  }
  return difference / Math.max(Math.abs(numeric), Math.abs(analytic));
}

// How far a central difference of a loss may be off because a loss has only 53 bits.
export function roundingNoise(loss, eps) {
  const roundingOfLoss = 16 * Number.EPSILON * Math.abs(loss);
  return roundingOfLoss / eps;
}
