// Where a pass is in a model. A place is a number from 0, where nothing is computed, over `turn`, where the forward
// pass is done, to twice that, where the gradient has come back; between two whole numbers a part is under way.
//
// model: { scene, view, turn }; a model with fewer parts than the other one waits for it at the turn

// -> { back: is it the backward pass?, done: parts of it, count: of all parts }
export function progressOf({ scene, view, turn }, place) {
  const count = scene.parts.length;
  const back = place > turn && view.pass.loss !== null;
  return { back, done: Math.min(back ? place - turn : place, count), count };
}

// The number of the part that the pass is in, or has just passed; -1 before the first.
export function partAt(model, place) {
  const { back, done, count } = progressOf(model, place);
  return back ? Math.max(count - Math.ceil(done), 0) : Math.ceil(done) - 1;
}

// Where the front of the pass is in the drawing: { at: pixels along the way, back }
export function frontAt(model, place) {
  const { places, start, along } = model.scene.shape;
  const { back, done, count } = progressOf(model, place);
  const passed = Math.floor(done);
  const share = done - passed; // of the part that is under way
  if (!back && passed === count) return { at: along, back };
  if (!back) return { at: share ? between(places[passed], share) : (places[passed - 1]?.to ?? start), back };
  return { at: share ? between(places[count - 1 - passed], 1 - share) : places[count - passed].from, back };
}

function between({ from, to }, share) {
  return from + share * (to - from);
}

// The share of the way that the part at this place takes.
export function shareOfWay(model, place) {
  const { places } = model.scene.shape;
  const count = places.length;
  const done = Math.floor(place < model.turn ? place : place - model.turn);
  if (done >= count) return 1 / count; // this model waits
  const { from, to } = places[place < model.turn ? done : count - 1 - done];
  return (to - from) / (places.at(-1).to - places[0].from);
}
