// Plays the pass of the stage: from place to place, see way.js.

const ONE_WAY = 4200; // milliseconds of the whole forward pass, and again of the backward pass
const TURN = 900; // of rest at the loss
const STILL = 450; // of a step, for readers who want no movement

const playing = { frame: null, before: 0, rest: 0 };

export function isPlaying() {
  return playing.frame !== null;
}

export function stopPlaying() {
  cancelAnimationFrame(playing.frame);
  playing.frame = null;
}

// lengthAt(place): the share of one way that the part there takes; show(place): draws it; place and last: () -> number
export function startPlaying({ place, last, turn, lengthAt, show }) {
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  playing.before = performance.now();
  playing.rest = 0;
  const go = (now) => {
    playing.frame = requestAnimationFrame(go);
    const spent = Math.min(now - playing.before, 100);
    if (still && now - playing.before < STILL) return;
    playing.before = now;
    if (playing.rest > 0) {
      playing.rest -= spent;
      return;
    }
    const from = place();
    const to = Math.min(still ? Math.floor(from) + 1 : onward(from, spent, lengthAt), last());
    const isTurn = from < turn() && to >= turn();
    playing.rest = isTurn ? TURN : 0;
    if (to === last()) stopPlaying();
    show(isTurn ? turn() : to);
  };
  playing.frame = requestAnimationFrame(go);
}

// So many milliseconds further: parts that are drawn long take longer.
function onward(place, spent, lengthAt) {
  let left = spent / ONE_WAY;
  let at = place;
  while (left > 0) {
    const step = lengthAt(at);
    const rest = (Math.floor(at) + 1 - at) * step;
    if (rest > left) return at + left / step;
    left -= rest;
    at = Math.floor(at) + 1;
    if (!(step > 0)) return at;
  }
  return at;
}
