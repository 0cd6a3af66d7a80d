// Byte-pair encoding of one word (Sennrich et al. 2016): symbols are joined in the order in which pairs were learnt.

// merges: ["a b", ...] in that order -> Map(pair -> its rank)
export function ranksOf(merges) {
  return new Map(merges.map((pair, rank) => [pair, rank]));
}

// The symbols of a word after all merges: again and again the pair that was learnt first is joined, everywhere.
export function mergedSymbols(symbols, ranks) {
  while (symbols.length > 1) {
    const pair = firstLearnt(symbols, ranks);
    if (pair === null) {
      break;
    }
    symbols = joinPair(symbols, pair);
  }
  return symbols;
}

// Of the pairs of neighbours the one that was learnt first, as [left, right]; null where none was learnt.
function firstLearnt(symbols, ranks) {
  let best = null;
  let lowest = Infinity;
  for (let i = 0; i + 1 < symbols.length; i++) {
    const rank = ranks.get(`${symbols[i]} ${symbols[i + 1]}`);
    if (rank < lowest) {
      lowest = rank;
      best = [symbols[i], symbols[i + 1]];
    }
  }
  return best;
}

// Join every occurrence of a pair, from left to right: a a a with the pair (a, a) is aa a.
export function joinPair(symbols, [left, right]) {
  const joined = [];
  let i = 0;
  while (i < symbols.length) {
    if (symbols[i] === left && symbols[i + 1] === right) {
      joined.push(left + right);
      i += 2;
    } else {
      joined.push(symbols[i]);
      i += 1;
    }
  }
  return joined;
}
