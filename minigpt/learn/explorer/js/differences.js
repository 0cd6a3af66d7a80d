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

// |numeric - analytic| divided by the larger of both.
//
// A loss has 53 bits only, so that the difference of two losses is off by `noise` although all is right. Beside a
// number that is nearly 0 this would look like a large error: nothing below 10,000 times the noise is divided by.
export function relativeError(numeric, analytic, noise) {
  const difference = Math.abs(numeric - analytic);
  const size = Math.max(Math.abs(numeric), Math.abs(analytic), 1e4 * noise);
  return difference === 0 ? 0 : difference / size;
}

// How far a central difference may be off because the loss is rounded.
export function roundingNoise(loss, eps) {
  const roundingOfLoss = 16 * Number.EPSILON * Math.abs(loss);
  return roundingOfLoss / eps;
}
