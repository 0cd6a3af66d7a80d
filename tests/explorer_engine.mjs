// Runs the explorer's engine for its tests: reads a list of calls from standard input, and writes the results.
//
// node explorer_engine.mjs FOLDER_OF_THE_ENGINE < calls.json > results.json
// A call is [name of a function below, its arguments...]. A tensor is {"shape": [...], "data": its float64 in base64}.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const folder = pathToFileURL(process.argv[2] + "/").href;
const session = await import(folder + "session.js");
const { OPERATIONS } = await import(folder + "operations.js");
const { verdictOf } = await import(folder + "differences.js");
const { putInTable } = await import(folder + "ops/table.js");
const { Tensor } = await import(folder + "tensor.js");
const { openTokenizer } = await import(folder + "tokenizer.js");
const weights = await import(folder + "weights.js");

let models = {};

const functions = {
  operation(op, inputs, dout) {
    putInTable(OPERATIONS);
    const [out, cache] = OPERATIONS[`${op}_forward`](...inputs);
    const gradients = OPERATIONS[`${op}_backward`](dout, cache);
    return [out, Array.isArray(gradients) ? gradients : [gradients]];
  },
  async open(page) {
    for (const model of await session.openModels(page)) {
      models[model.name] = model;
    }
    return Object.values(models).map(({ name, title, kind }) => ({ name, title, kind }));
  },
  fresh(name, kind, config, seed, projections = "paper") {
    models[name] = session.freshModel(kind, config, seed, projections);
    return Object.fromEntries(models[name].parameters);
  },
  parametersOf(name) {
    return Object.fromEntries(models[name].parameters);
  },
  // only: the names of the values that are wanted; without it all of them
  pass(name, ids, options, only = null) {
    return plain(session.runPass(models[name], ids, options), only);
  },
  stream(name, ids, options) {
    const pass = session.runPass(models[name], ids, options);
    const head = session.probabilities(pass.logits);
    return { names: session.streamNames(models[name]), lens: session.lens(models[name], pass), head };
  },
  difference(name, ids, targets, value, index, options) {
    return session.finiteDifference(models[name], ids, targets, value, index, options);
  },
  loss(name, ids, targets) {
    return session.runPass(models[name], ids, { targets, backward: false }).loss;
  },
  verdict(name, ids, targets, value, index, options) {
    return verdictOf(session.finiteDifference(models[name], ids, targets, value, index, options));
  },
  // Of each value that has a gradient, at its largest number: [name, is it said to be wrong, what a difference says]
  saidAndFound(name, ids, targets, mistake) {
    const { isWrong } = session.mistakes.find((one) => one.name === mistake);
    const { values } = session.runPass(models[name], ids, { targets, mistake });
    return [...values].map(([value, { gradient }]) => {
      const sizes = gradient.data.map(Math.abs);
      const index = sizes.indexOf(sizes.reduce((a, b) => Math.max(a, b)));
      const found = session.finiteDifference(models[name], ids, targets, value, index, { mistake });
      return [value, isWrong(value), verdictOf(found)];
    });
  },
  mistakes() {
    return session.mistakes;
  },
  encode(spec, texts) {
    const tokenizer = openTokenizer(spec);
    return texts.map((text) => tokenizer.encode(text));
  },
  assigned(characters) {
    return characters.filter((character) => !/\p{Unassigned}/u.test(character));
  },
  words(spec, texts) {
    const tokenizer = openTokenizer(spec);
    return texts.map((text) => text.match(tokenizer.word));
  },
  halves(bits, dtype) {
    return weights.numbersOf(Uint16Array.from(bits), dtype);
  },
};

function plain(pass, only) {
  const wanted = [...pass.values].filter(([name]) => only === null || only.includes(name));
  return { ...pass, values: Object.fromEntries(wanted) };
}

// Infinity and NaN have no JSON, and -0 loses its sign there: they travel as text.
function ofNumber(number) {
  return Number.isFinite(number) && !Object.is(number, -0) ? number : Object.is(number, -0) ? "-0" : String(number);
}

function toJson(key, value) {
  if (!(value instanceof Float64Array)) return value;
  if (key !== "data") return Array.from(value, ofNumber);
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64");
}

function fromJson(key, value) {
  const isTensor = value !== null && typeof value === "object" && "shape" in value && "data" in value;
  return isTensor ? new Tensor(numbersIn(value.data), value.shape) : value;
}

function numbersIn(base64) {
  const bytes = Uint8Array.from(Buffer.from(base64, "base64")); // a copy begins at 0, as an array of float64 must
  return new Float64Array(bytes.buffer);
}

const calls = JSON.parse(readFileSync(0, "utf-8"), fromJson);
const results = [];
for (const [name, ...args] of calls) {
  results.push(await functions[name](...args));
}
process.stdout.write(JSON.stringify(results, toJson));
