// Runs the `compute` of little machines: a list of [name, values] comes on standard input, a list of numbers goes out.
// The files of the machines are the arguments.
import { readFileSync } from "node:fs";
import vm from "node:vm";

const text = process.argv.slice(2).map((file) => `{${readFileSync(file, "utf8").replace("const machines = {};", "")}}`);
const machines = {};
vm.runInNewContext(text.join("\n"), { machines });
const calls = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(calls.map(([name, values]) => machines[name].compute(values))));
