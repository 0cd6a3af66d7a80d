// What the reader has chosen. Every change goes through `change`, which draws the page again.

export const state = {
  text: "",
  shown: "0", // the number of a model, or "both"
  position: 0, // the token after which we look at the prediction
  target: null, // the token asked for there; null: the one that follows in the text
  lossOf: "one", // "one": the loss at that position only; "all": the mean over the text
  at: null, // where the pass of the stage is, see player.js; null: where the page opens; Infinity: all is done
  block: 0,
  head: 0,
  step: 0, // how many steps the gradient has walked back
  tensor: null, // the name of the tensor that is looked at
  slice: 0, // which head, of a tensor with three axes
  mistake: null,
  allChanges: false, // all gradients that a mistake changes, or the first ones?
  check: null, // the last "check it yourself"
};

let afterChange = () => {};

export function onChange(listener) {
  afterChange = listener;
}

// goTo: the name of a panel that is to come into sight then, or null
export function change(choices, goTo = null) {
  Object.assign(state, choices);
  afterChange(choices, goTo);
}
