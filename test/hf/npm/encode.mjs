// node encode.mjs TOKENIZER TEXTS: reads a JSON array of texts and prints, for each library, the ids of each text without and with the token in
// front, and what the ids decode to, as one JSON object.
import { readFileSync } from 'node:fs'
import hf from 'tokenizers'
import { Tokenizer } from '@huggingface/tokenizers'

const [file, list] = process.argv.slice(2)
const json = readFileSync(file, 'utf8')
const texts = JSON.parse(readFileSync(list, 'utf8'))
const rust = hf.Tokenizer.fromString(json)
const js = new Tokenizer(JSON.parse(json), {})
const out = { rust: [], rustBOS: [], rustText: [], js: [], jsBOS: [], jsText: [] }
for (const text of texts) {
  const ids = (await rust.encode(text, null, { addSpecialTokens: false })).getIds()
  out.rust.push(Array.from(ids))
  out.rustBOS.push(Array.from((await rust.encode(text, null, { addSpecialTokens: true })).getIds()))
  out.rustText.push(await rust.decode(Array.from(ids), false))
  const mine = js.encode(text, { add_special_tokens: false }).ids
  out.js.push(mine)
  out.jsBOS.push(js.encode(text, { add_special_tokens: true }).ids)
  out.jsText.push(mine.length === 0 ? '' : js.decode(mine, { skip_special_tokens: false, clean_up_tokenization_spaces: false }))
}
process.stdout.write(JSON.stringify(out))
