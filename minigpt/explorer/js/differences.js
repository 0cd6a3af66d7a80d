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

// |numeric - analytic| divided by the larger of both, or by `smallestDivisor` where both are smaller.
//
// Numbers have 53 bits only, so that the difference of two losses is off by `noise` although all is right. Beside a
// number that is nearly 0 this would look like a large error.
export function relativeError(numeric, analytic, noise) {
  const difference = Math.abs(numeric - analytic);
  const size = Math.max(Math.abs(numeric), Math.abs(analytic), smallestDivisor(noise));
  return difference === 0 ? 0 : difference / size;
}

export function smallestDivisor(noise) {
  return 1e4 * noise;
}

// How far a central difference may be off because the two losses are rounded.
//
// A loss is log(sum of exp) - logit, of numbers of the size of 1 or more. Their rounding is absolute: where the model
// is sure the loss is nearly 0, and its rounding is as large as ever.
export function roundingNoise(loss, eps) {
  const roundingOfLoss = 16 * Number.EPSILON * Math.max(Math.abs(loss), 1);
  return roundingOfLoss / eps;
}

const HAPPY = 1e-7;
const SUSPICIOUS = 1e-4;

// result: of finiteDifference -> "happy" | "zero" | "noise" | "suspicious" | "wrong"
//
// "zero": both are exactly 0. "noise": the relative error is larger than a happy one, but all of it may be rounding.
export function verdictOf({ numeric, analytic, relative, noise }) {
  if (numeric === 0 && analytic === 0) return "zero";
  if (relative < HAPPY) return "happy";
  if (Math.abs(numeric - analytic) < noise) return "noise";
  return relative < SUSPICIOUS ? "suspicious" : "wrong";
}
