// node train.mjs TEXT TOKENIZER: the merges that Hugging Face's trainer learns from a file with the pre-tokenizer of a tokenizer.json, a line each
// behind a line MERGES, until no pair is left or 30,000 entries are reached.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import hf from 'tokenizers'

const [text, ours] = process.argv.slice(2)
const { pre_tokenizer } = JSON.parse(readFileSync(ours, 'utf8'))
const t = hf.Tokenizer.fromString(JSON.stringify({ version: '1.0', added_tokens: [], pre_tokenizer, model: { type: 'BPE', vocab: {}, merges: [] } }))
t.train([text])
const dir = mkdtempSync(join(tmpdir(), 'merges-'))
t.save(join(dir, 'tokenizer.json'))
const { model } = JSON.parse(readFileSync(join(dir, 'tokenizer.json'), 'utf8'))
rmSync(dir, { recursive: true })
process.stdout.write('MERGES\n' + model.merges.map(m => (Array.isArray(m) ? m.join(' ') : m) + '\n').join(''))
