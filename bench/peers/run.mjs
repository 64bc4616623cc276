// Runs TinyLoop and llama.cpp in turn on the same files and prints the ratios. Called by ./run; see ../README.md.
import {spawnSync} from "node:child_process";
import {existsSync, mkdirSync, renameSync, statSync, writeFileSync} from "node:fs";
import {dirname, join} from "node:path";
import {fileURLToPath} from "node:url";
import {parseArgs} from "node:util";

const here = dirname(fileURLToPath(import.meta.url));
const {values: flags, positionals} = parseArgs({
    allowPositionals: true,
    options: {
        rounds: {type: "string", default: "5"}, threads: {type: "string", default: "2"}, quick: {type: "boolean", default: false},
        groups: {type: "string", default: "short,context,streams"}, "kv-dtype": {type: "string", default: "f16"},
        json: {type: "string"}, list: {type: "boolean", default: false}, cache: {type: "string"}, tinyloop: {type: "string"}
    }
});

const prompt = 128; // positions of each stream before it decodes, as in `tinyloop bench`

// The shapes, with what is asked of each row: ratio of TinyLoop over llama.cpp.
const window = ["--context", "8192"];
const shapes = {
    "15m": {synth: ["--shape", "15m", ...window], vocab: 32000, tokens: 64, contexts: [1024, 4096], streams: [8, 32], streamAim: 6},
    "124m": {synth: ["--shape", "124m", ...window], vocab: 50257, tokens: 32, contexts: [1024, 4096], streams: [8, 32], streamAim: 4},
    "1.1b": {synth: ["--shape", "1.1b", ...window], vocab: 32000, tokens: 16, contexts: [], streams: [8, 32], streamAim: 2.5},
    "looped": {synth: ["--shape", "custom", "--dim", "512", "--heads", "8", "--hidden", "1536", "--layers", "4", "--loops", "8", "--vocab", "8192", ...window], vocab: 8192, tokens: 32, contexts: [], streams: []}
};
const aims = {
    decode: {
        "15m": {q8_0: 5, q4_0: 5, f32: 1.8, f16: 1.8}, "124m": {q8_0: 2.2, q4_0: 2.2, q4_K: 2.2, f16: 1.5},
        "1.1b": {q8_0: 1.7, q4_0: 1.7, q4_K: 1.7, f16: 1.4}, "looped": {q8_0: 3}
    },
    prefill: {q8_0: 2.3, q4_0: 2.8, q4_K: 2.3, f16: 1.2, f32: 1.2}
};

// models lists what is run: shape, format, and which groups of rows.
function models() {
    const list = [];
    for (const [shape, types] of [["15m", ["q8_0", "q4_0", "f16", "f32"]], ["124m", ["q8_0", "q4_0", "q4_K", "f16"]], ["looped", ["q8_0"]], ["1.1b", ["q8_0", "q4_0", "q4_K", "f16"]]])
        for (const type of types)
            list.push({name: `${shape}-${type}`, shape, type, groups: groupsOf(shape, type)});
    return list.filter((m) => positionals.length === 0 || positionals.some((p) => m.name.startsWith(p)));
}

// groupsOf gives groups of rows that one process of each side measures: small, so that the two sides take turns often.
function groupsOf(shape, type) {
    const s = shapes[shape];
    const wanted = flags.groups.split(",");
    const length = flags.quick ? 128 : 512;
    const groups = [];
    if (wanted.includes("short"))
        groups.push([{work: "prefill", n: length, aim: shape === "looped" ? 3 : aims.prefill[type]}, {work: "decode", n: 0, aim: aims.decode[shape][type]}]);
    if (type !== "q8_0")
        return groups;
    const contexts = flags.quick ? s.contexts.slice(0, 1) : s.contexts;
    if (wanted.includes("context"))
        groups.push(...contexts.map((n) => [{work: "decode", n, aim: 3}]));
    if (wanted.includes("streams"))
        groups.push(...s.streams.map((n) => [{work: "streams", n, aim: s.streamAim}]));
    return groups;
}

function tokensOf(m) {
    return flags.quick ? Math.max(8, shapes[m.shape].tokens / 4) : shapes[m.shape].tokens;
}

// fileOf makes the model if it is not there yet.
function fileOf(m) {
    mkdirSync(flags.cache, {recursive: true});
    const path = join(flags.cache, `${m.name}.gguf`);
    if (!existsSync(path)) {
        const part = join(flags.cache, `part-${m.name}.gguf`);
        run(flags.tinyloop, ["synth", part, ...shapes[m.shape].synth, "--type", m.type]);
        renameSync(part, path);
    }
    run("cat", [path], "ignore"); // the file is in the page cache for both
    return path;
}

function run(command, args, stdout = "pipe") {
    const r = spawnSync(command, args, {stdio: ["ignore", stdout, "pipe"], maxBuffer: 1 << 26, encoding: "utf8", cwd: here});
    if (r.error)
        throw r.error;
    if (r.status !== 0)
        throw new Error(`${command} ${args[0]}: status ${r.status}: ${r.stderr.slice(-2000)}`);
    return r.stdout;
}

// ours measures a group of rows once: {first, load, peak, rows: [{model, engine}]}.
function ours(m, rows, threads) {
    const of = (work) => rows.filter((r) => r.work === work).map((r) => r.n).join(",");
    const args = ["bench", m.file, "--json", "--no-probe", "--rounds", "1", "--threads", String(threads), "--tokens", String(tokensOf(m)), "--kv-dtype", flags["kv-dtype"]];
    for (const [flag, list] of [["--prefill", of("prefill")], ["--context", of("decode")], ["--streams", of("streams") || "1"]])
        args.push(`${flag}=${list}`);
    if (rows[0].work !== "prefill")
        args.push("--no-start");
    const result = JSON.parse(run(flags.tinyloop, args)).runs[0];
    const find = (row, via) => result.rates.find((x) => x.work === row.work && x.n === row.n && x.via === via);
    return {
        first: result.first_ms, load: result.load_ms, peak: result.peak_rss,
        rows: rows.map((row) => ({rate: find(row, "model").tokens_per_second.median, best: find(row, "model").best, engine: find(row, "engine")?.tokens_per_second.median}))
    };
}

// theirs measures a group of rows once, with flash attention as each row says.
function theirs(m, rows, threads) {
    const job = {file: m.file, threads, tokens: tokensOf(m), prompt, vocab: shapes[m.shape].vocab, rows};
    return JSON.parse(run(process.execPath, [join(here, "llamacpp.mjs"), JSON.stringify(job)]));
}

// chooseFlash measures every row once with flash attention and once without; each row keeps what was faster for it.
function chooseFlash(m, rows, threads) {
    const [on, off] = [true, false].map((flash) => theirs(m, rows.map((r) => ({...r, flash})), threads).rows);
    rows.forEach((r, i) => { r.flash = on[i].best >= off[i].best; });
}

function median(list) {
    const v = list.filter((x) => x > 0).sort((a, b) => a - b);
    if (v.length === 0)
        return NaN;
    const mid = v.length >> 1;
    return v.length % 2 ? v[mid] : (v[mid - 1] + v[mid]) / 2;
}

// compare gives one row of the result from paired samples; bigger is better for rates, and for times the ratio is turned round.
function compare(m, threads, what, mine, peers, aim, time = false) {
    const ratios = mine.map((v, i) => time ? peers[i] / v : v / peers[i]);
    const ok = ratios.filter((x) => x > 0);
    return {model: m.name, threads, work: what, ours: median(mine), peer: median(peers), ratio: median(ratios), ratio_min: Math.min(...ok), ratio_max: Math.max(...ok), aim, ours_samples: mine, peer_samples: peers};
}

function measureGroup(m, rows, threads, rounds) {
    chooseFlash(m, rows, threads);
    const mine = [], peers = [];
    for (let i = 0; i < rounds; i++) {
        const turns = [() => mine.push(ours(m, rows, threads)), () => peers.push(theirs(m, rows, threads))];
        if (i % 2)
            turns.reverse(); // neither always comes second
        turns.forEach((t) => t());
    }
    const out = rows.map((row, i) => {
        const result = compare(m, threads, `${row.work} ${row.n}`, mine.map((x) => x.rows[i].rate), peers.map((x) => x.rows[i].rate), row.aim);
        result.ratio_best = Math.max(...mine.map((x) => x.rows[i].best)) / Math.max(...peers.map((x) => x.rows[i].best));
        result.engine = median(mine.map((x) => x.rows[i].engine));
        result.flash = row.flash;
        return result;
    });
    if (rows[0].work === "prefill") {
        out.push(compare(m, threads, "first token, ms", mine.map((x) => x.first), peers.map((x) => x.first_ms), m.name === "15m-q8_0" ? 5 : undefined, true));
        out.push(compare(m, threads, "peak memory, MB", mine.map((x) => x.peak / 1e6), peers.map((x) => (x.peak_rss - x.rss_before) / 1e6), undefined, true));
    }
    return out;
}

const columns = [14, 3, 16, 9, 9, 7, 12, 7, 5, 9, 6];
function line(cells) {
    console.log(cells.map((c, i) => i === 0 || i === 2 ? String(c).padEnd(columns[i]) : String(c).padStart(columns[i])).join(" "));
}
const number = (x) => x === undefined || Number.isNaN(x) ? "-" : x < 100 ? x.toFixed(1) : x.toFixed(0);

function print(r) {
    line([r.model, r.threads, r.work, number(r.ours), number(r.peer), r.ratio.toFixed(2), `${r.ratio_min.toFixed(2)}-${r.ratio_max.toFixed(2)}`, r.ratio_best?.toFixed(2) ?? "-", r.aim ?? "-", number(r.engine), r.flash === undefined ? "" : r.flash ? "on" : "off"]);
}

if (flags.list) {
    models().forEach((m) => console.log(m.name));
    process.exit(0);
}
const rounds = flags.quick ? Math.min(3, Number(flags.rounds)) : Number(flags.rounds);
const results = [];
line(["model", "thr", "work", "ours", "llama.cpp", "ratio", "spread", "best", "aim", "engine", "flash"]);
for (const m of models()) {
    m.file = fileOf(m);
    m.bytes = statSync(m.file).size;
    for (const threads of flags.threads.split(",").map(Number))
        for (const rows of m.groups)
            for (const r of measureGroup(m, rows.map((x) => ({...x})), threads, rounds)) {
                print(r);
                results.push({...r, file_bytes: m.bytes});
                if (flags.json)
                    writeFileSync(flags.json, JSON.stringify({quick: flags.quick, rounds, kv: flags["kv-dtype"], peer: "node-llama-cpp 3.22.1 (llama.cpp 0.5.0), F16 KV", results}, null, 1) + "\n");
            }
}
