// What one pass computes, under the names of the package: values, gradients, and what the backward pass needs.

import { add } from "../ops/residual.js";

export class Recording {
  // parameters: Map(name -> Tensor); nudge: { name, index, by } or null
  constructor(parameters, nudge = null) {
    this.nudge = nudge;
    this.caches = new Map();
    this.values = new Map(); // of the activations, in the order of the forward pass
    this.parameters = new Map();
    for (const [name, value] of parameters) {
      this.parameters.set(name, { value: this.nudged(name, value), gradient: null, kind: "parameter" });
    }
  }

  // The part of the model under this name: "h.0", or "" for the whole.
  part(name) {
    return new Part(this, name);
  }

  // value, or a copy in which one number is changed, if this is the one to nudge.
  nudged(name, value) {
    if (this.nudge === null || this.nudge.name !== name) {
      return value;
    }
    const { index, by } = this.nudge;
    const changed = value.copy();
    changed.data[index] += by;
    return changed;
  }

  // Map(name -> { value, gradient, kind }): activations, then parameters
  all() {
    return new Map([...this.values, ...this.parameters]);
  }
}

// One part of the model: it says "attn.qkv" where the whole says "h.0.attn.qkv".
export class Part {
  constructor(recording, prefix) {
    this.recording = recording;
    this.prefix = prefix;
    this.keep = this.keep.bind(this); // so that operations can be handed these two
    this.keepGradient = this.keepGradient.bind(this);
  }

  nameOf(name) {
    return [this.prefix, name].filter((piece) => piece !== "").join(".");
  }

  part(name) {
    return new Part(this.recording, this.nameOf(name));
  }

  // Record a value of the forward pass. Returns what the pass goes on with. "": the output of the part itself
  keep(name, value) {
    const whole = this.nameOf(name);
    const kept = this.recording.nudged(whole, value);
    this.recording.values.set(whole, { value: kept, gradient: null, kind: "activation" });
    return kept;
  }

  // Record the gradient of a value that was kept. Returns it.
  keepGradient(name, gradient) {
    this.recording.values.get(this.nameOf(name)).gradient = gradient;
    return gradient;
  }

  // What the backward pass of this part needs.
  keepCache(cache) {
    this.recording.caches.set(this.prefix, cache);
  }

  get cache() {
    return this.recording.caches.get(this.prefix);
  }

  parameter(name) {
    return this.recording.parameters.get(this.nameOf(name)).value;
  }

  // The only place that touches the gradient of a parameter: it is assigned the first time, and added to later.
  accumulate(name, gradient) {
    const parameter = this.recording.parameters.get(this.nameOf(name));
    parameter.gradient = parameter.gradient === null ? gradient : add(parameter.gradient, gradient);
  }
}
