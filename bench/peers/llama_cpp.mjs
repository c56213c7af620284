// llama.cpp's evaluation of a prompt, through the package node-llama-cpp (its compiled llama.cpp). It returns no patterns.
//
//     node llama_cpp.mjs FILE THREADS           answers requests as serve.py; a request has `length`
//     node llama_cpp.mjs FILE THREADS LENGTH    evaluates one prompt and ends
//
// Install the package in this folder: npm install --no-save --ignore-scripts node-llama-cpp@3.22.1
import {createInterface} from "node:readline";
import {readFileSync, writeFileSync} from "node:fs";

const reply = (value) => process.stdout.write(JSON.stringify(value) + "\n");
const [file, threads, once] = process.argv.slice(2);

let library;
try {
  library = await import("node-llama-cpp");
} catch {
  reply({missing: "node-llama-cpp"});
  process.exit(0);
}
const llama = await library.getLlama({gpu: false, build: "never", maxThreads: Number(threads), logLevel: "error"});
const model = await llama.loadModel({modelPath: file, useMmap: true});
const context = await model.createContext({contextSize: 2048, batchSize: 2048, threads: Number(threads)});
const sequence = context.getSequence();

const ids = (length) => Array.from({length}, (_, i) => 10 + ((i * 7919) % 499));

async function evaluate(length) {
  await sequence.clearHistory();
  const begin = performance.now();
  await sequence.evaluateWithoutGeneratingNewTokens(ids(length));
  return performance.now() - begin;
}

// The largest resident memory in MiB since resetPeak(), as serve.py measures it.
const resetPeak = () => writeFileSync("/proc/self/clear_refs", "5");
const peak = () => Number(/VmHWM:\s+(\d+)/.exec(readFileSync("/proc/self/status", "ascii"))[1]) / 1024;

if (once) {
  await evaluate(Number(once));
  process.exit(0);
}
reply({name: `llama.cpp ${llama.llamaCppRelease.release}`});
let last;
for await (const line of createInterface({input: process.stdin})) {
  const {length, repeat, warm_ups: warmUps} = JSON.parse(line);
  if (length !== last) {
    resetPeak();
    for (let i = 0; i < warmUps; ++i) await evaluate(length);
    last = length;
  }
  const times = [];
  for (let i = 0; i < repeat; ++i) times.push(await evaluate(length));
  times.sort((a, b) => a - b);
  reply({ms: times[Math.floor(times.length / 2)], mib: peak()});
}
process.exit(0);
