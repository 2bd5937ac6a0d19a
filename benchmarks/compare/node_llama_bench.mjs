// llama.cpp as the npm package node-llama-cpp brings it: `node node_llama_bench.mjs PACKAGE MODEL.gguf PROMPT TOKENS DEPTH THREADS`.
// One sample, as JSON: tokens/s of a prompt fed at once and of tokens one by one, seconds from loading llama.cpp, Node being there, to the
// first token, peak resident memory.
import {resourceUsage} from "node:process";
import {join} from "node:path";
import {pathToFileURL} from "node:url";

const [folder, model, ...numbers] = process.argv.slice(2);
const [prompt, tokens, depth, threads] = numbers.map(Number);
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(join(folder, "node_modules/node-llama-cpp/dist/index.js")).href);

const start = performance.now();
const llama = await getLlama({gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: threads});
const loaded = await llama.loadModel({modelPath: model, useMmap: true});
const context = await loaded.createContext({contextSize: prompt + tokens + depth + 16, batchSize: 512, threads, sequences: 1});
const sequence = context.getSequence();
const ids = (count, seed) => Array.from({length: count}, (_, i) => (i * 7919 + seed) % 1000 + 100);
const seconds = (begin) => (performance.now() - begin) / 1000;

// Greedy tokens after `last`; the time counts from the first of them on.
async function generate(last, count) {
  let begin = 0, made = 0;
  for await (const _ of sequence.evaluate([last], {temperature: 0, yieldEogToken: true})) {
    if (made === 0) begin = performance.now();
    if (++made > count) break;
  }
  return (made - 1) / seconds(begin);
}

await generate(100, 0);
const result = {first_seconds: seconds(start)};
if (prompt > 0) {
  await sequence.clearHistory();
  await sequence.evaluateWithoutGeneratingNewTokens(ids(prompt, 4));  // not counted: compute buffers are touched for the first time
  await sequence.clearHistory();
  if (depth > 0) await sequence.evaluateWithoutGeneratingNewTokens(ids(depth, 1));
  const begin = performance.now();
  await sequence.evaluateWithoutGeneratingNewTokens(ids(prompt, 2));
  result.prefill = prompt / seconds(begin);
}
if (tokens > 0) {
  await sequence.clearHistory();
  if (depth > 0) await sequence.evaluateWithoutGeneratingNewTokens(ids(depth, 3));
  result.decode = await generate(101, tokens);
}
result.peak_rss_bytes = resourceUsage().maxRSS * 1024;
console.log(JSON.stringify(result));
process.exit(0);
