// Measures one model file with llama.cpp, through the bindings of node-llama-cpp but beneath its JavaScript layers: a batch is filled and decoded by
// the addon's own calls, so that what is timed is llama_decode. Nothing is sampled.
//
// usage: node llamacpp.mjs '{"file": …, "threads": 2, "tokens": 64, "prompt": 128, "rows": [{"work": "prefill" | "decode" | "streams", "n": 512, "flash": true}]}'
// prints {"load_ms", "first_ms", "peak_rss", "rss_before", "hop_us", "rows": [{"rate", "best"}]}, in tokens per second
import {randomBytes} from "node:crypto";
import {readFileSync, writeFileSync} from "node:fs";
import {getLlama, LlamaLogLevel} from "node-llama-cpp";

const job = JSON.parse(process.argv[2]);
const seconds = () => Number(process.hrtime.bigint()) / 1e9;
const status = (name) => 1024 * Number(new RegExp(`${name}:\\s+(\\d+)`).exec(readFileSync("/proc/self/status", "utf8"))?.[1] ?? 0);

const llama = await getLlama({gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: job.threads});
const hop = await hopTime();
try { writeFileSync("/proc/self/clear_refs", "5"); } catch { /* the peak is then that of the whole process */ }
const rssBefore = status("VmRSS");

const begin = seconds();
const addon = llama._bindings; // the JavaScript classes above it read the file a second time
const model = new addon.AddonModel(job.file, {addonExports: addon, gpuLayers: 0, useMmap: true});
if (!await model.init())
    throw new Error("llama.cpp could not load the model");
const loaded = seconds();
const vocab = job.vocab;
const token = (i) => (i * 7919 + 13) % vocab;

let context;
let key = "";
let filled = 0;      // positions of sequence 0 in the cache
let filledLanes = 0; // sequences that hold their prompt

// open makes the context that a row needs, and drops the one before.
async function open(row) {
    const streams = row.work === "streams";
    const wanted = `${streams} ${row.flash}`;
    if (wanted === key)
        return;
    await context?.dispose();
    const rows = job.rows.filter((r) => (r.work === "streams") === streams && r.flash === row.flash);
    const most = Math.max(...rows.map((r) => r.n));
    const window = streams ? job.prompt + job.tokens + 2 : most + job.tokens + 2;
    const sequences = streams ? most : 1;
    context = new addon.AddonContext(model, {
        contextSize: sequences * Math.ceil(window / 256) * 256, sequences, batchSize: 512, threads: job.threads, flashAttention: row.flash
    });
    if (!await context.init())
        throw new Error("llama.cpp could not make a context");
    key = wanted;
    filled = filledLanes = 0;
}

// decode runs items of [sequence, position, tokens], with logits for the last token of each, and gives the seconds of llama_decode.
async function decode(items) {
    context.initBatch(items.reduce((n, [, , t]) => n + t.length, 0));
    for (const [seq, pos, tokens] of items)
        context.addToBatch(seq, pos, Uint32Array.from(tokens), Uint32Array.from([tokens.length - 1]));
    const t = seconds();
    await context.decodeBatch();
    return seconds() - t - hop;
}

const ids = (from, to) => Array.from({length: to - from}, (_, i) => token(from + i));

async function fill(seq, from, to) {
    let time = 0;
    for (let at = from; at < to; at += 512)
        time += await decode([[seq, at, ids(at, Math.min(to, at + 512))]]);
    return time;
}

function cut(seq, from) {
    if (!context.removeTokenCellsFromSequence(seq, from, -1))
        throw new Error("llama.cpp did not remove positions");
}

// steps decodes one position at a time in n sequences. The rate is that of all together in the median step, as in `tinyloop bench`, and best that
// of the fastest tenth. The first step is for warming up.
async function steps(n, from) {
    const times = [];
    for (let i = 0; i <= job.tokens; i++)
        times.push(await decode(Array.from({length: n}, (_, seq) => [seq, from + i, [token(from + i)]])));
    for (let seq = 0; seq < n; seq++)
        cut(seq, from);
    const sorted = times.slice(1).sort((a, b) => a - b);
    const at = (q) => sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];
    return {rate: n / at(0.5), best: n / at(0.1)};
}

async function measure(row) {
    await open(row);
    if (row.work === "prefill") {
        cut(0, 0);
        if (filled < row.n) { // the first prompt warms up
            await fill(0, 0, row.n);
            cut(0, 0);
        }
        const time = await fill(0, 0, row.n);
        filled = row.n;
        return {rate: row.n / time, best: row.n / time};
    }
    if (row.work === "decode") {
        if (filled > row.n) {
            cut(0, row.n);
            filled = row.n;
        }
        await fill(0, filled, row.n);
        filled = row.n;
        return await steps(1, row.n);
    }
    for (; filledLanes < row.n; filledLanes++)
        await fill(filledLanes, 0, job.prompt);
    return await steps(row.n, job.prompt);
}

// hopTime is what handing work to another thread and back costs in this process (not llama.cpp's fault, so it is taken off every call).
async function hopTime() {
    const times = [];
    for (let i = 0; i < 200; i++) {
        const t = seconds();
        await new Promise((resolve) => randomBytes(1, resolve));
        times.push(seconds() - t);
    }
    return times.sort((a, b) => a - b)[100];
}

const out = {load_ms: 1000 * (loaded - begin), rss_before: rssBefore, hop_us: 1e6 * hop, rows: []};
await open(job.rows[0]);
await decode([[0, 0, ids(0, 8)]]);
out.first_ms = 1000 * (seconds() - begin);
cut(0, 0);
for (const row of job.rows)
    out.rows.push(await measure(row));
out.peak_rss = status("VmHWM");
process.stdout.write(JSON.stringify(out) + "\n");
process.exit(0);
