// Random numbers that are the same on every machine: one seed, one sequence.

// A 32-bit generator by a counter: each step adds an odd constant, and mixes the bits of the sum (the finaliser of
// MurmurHash3).
export class Random {
  // seed: a whole number
  constructor(seed) {
    this.counter = seed >>> 0;
  }

  // A whole number, 0 to 2^32 - 1, all equally likely
  bits() {
    this.counter = (this.counter + 0x9e3779b9) >>> 0;
    let h = this.counter;
    h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
    h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
    return (h ^ (h >>> 16)) >>> 0;
  }

  // A number above 0 and below 1
  uniform() {
    return (this.bits() + 0.5) / 2 ** 32;
  }

  // A number of the standard normal distribution (Box and Muller 1958)
  normal() {
    const radius = Math.sqrt(-2 * Math.log(this.uniform()));
    const angle = 2 * Math.PI * this.uniform();
    return radius * Math.cos(angle);
  }
}
