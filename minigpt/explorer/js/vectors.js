// What is asked of a row of numbers: how long it is as a vector, and which of its numbers are the largest.

export function normOf(numbers) {
  let sum = 0;
  for (const number of numbers) {
    sum += number * number;
  }
  return Math.sqrt(sum);
}

// The places of the largest numbers, the largest first: [0.1, 0.7, 0.2] with count 2 gives [1, 2].
export function largestFirst(numbers, count) {
  const order = Array.from(numbers.keys());
  order.sort((a, b) => numbers[b] - numbers[a]);
  return order.slice(0, count);
}
