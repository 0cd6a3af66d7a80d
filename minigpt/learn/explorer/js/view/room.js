// How wide a picture may be, in pixels.

const EDGES = 56; // left and right of the panels
const WIDEST = 1040;
const NARROW = 700; // a page narrower than this shows its columns below each other
const GAP = 12; // between columns

// The width of one of `side` columns.
export function columnWidth(side) {
  const page = Math.min(document.documentElement.clientWidth - EDGES, WIDEST);
  return page < NARROW ? page : page / side - GAP * (side - 1);
}
