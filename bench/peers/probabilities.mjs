// Prints what llama.cpp makes of a text: for each position the probabilities of all tokens that may follow, in f32 and without flash attention.
//
// usage: node probabilities.mjs FILE '[1, 2, 3]'      prints [[p of token 0, p of token 1, …], …]
import {getLlama, LlamaLogLevel} from "node-llama-cpp";

const [file, tokens] = [process.argv[2], JSON.parse(process.argv[3])];
const llama = await getLlama({gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: 1});
const model = await llama.loadModel({modelPath: file, gpuLayers: 0});
const context = await model.createContext({
    contextSize: Math.max(64, tokens.length), threads: 1, flashAttention: false, experimentalKvCacheKeyType: "F32", experimentalKvCacheValueType: "F32"
});
const input = tokens.map((t) => [t, {generateNext: {token: true, probabilities: true, options: {temperature: 0}}}]);
const out = await context.getSequence().controlledEvaluate(input);
const rows = out.map((o) => {
    const row = [];
    for (const [token, p] of o.next.probabilities)
        row[token] = p;
    return row;
});
process.stdout.write(JSON.stringify(rows), () => process.exit(0));
