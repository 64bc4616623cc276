// The official JavaScript client against a running server: node openai.mjs BASE PROMPT EXPECTED
import assert from "node:assert/strict";
import OpenAI from "openai";

const [base, prompt, expected] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: "any" });
const messages = [{ role: "user", content: "Tell me a story." }];

// Completions: whole and streamed.
const whole = await client.completions.create({ model: "tl", prompt, max_tokens: 24, temperature: 0 });
assert.equal(whole.choices[0].text, expected);
assert.equal(whole.choices[0].finish_reason, "length");
let text = "";
for await (const c of await client.completions.create({ model: "tl", prompt, max_tokens: 24, temperature: 0, stream: true })) {
  text += c.choices[0]?.text ?? "";
}
assert.equal(text, expected);

// Chat: whole, raw stream and the stream helper agree.
const params = { model: "tl", messages, max_tokens: 24, temperature: 0.8, seed: 3 };
const chat = await client.chat.completions.create(params);
const answer = chat.choices[0].message.content;
assert.ok(answer.length > 0);
text = "";
let finish = null, usage = null;
for await (const c of await client.chat.completions.create({ ...params, stream: true, stream_options: { include_usage: true } })) {
  text += c.choices[0]?.delta?.content ?? "";
  finish = c.choices[0]?.finish_reason ?? finish;
  usage = c.usage ?? usage;
}
assert.equal(text, answer);
assert.equal(finish, chat.choices[0].finish_reason);
assert.equal(usage.total_tokens, chat.usage.total_tokens);
const helper = client.chat.completions.stream(params);
assert.equal(await helper.finalContent(), answer);

// Stopping half-way closes the connection; the server answers the next request at once.
let seen = 0;
for await (const c of await client.chat.completions.create({ ...params, max_tokens: 200, stream: true })) {
  if (c.choices[0]?.delta?.content && ++seen === 3) break;
}
assert.equal((await client.chat.completions.create(params)).choices[0].message.content, answer);

// Errors keep their message and are not tried again.
await assert.rejects(client.chat.completions.create({ ...params, top_p: 7 }), (e) => e.status === 422 && /top_p/.test(e.message) && e.param === "top_p");
await assert.rejects(client.chat.completions.create({ ...params, model: "nope" }), (e) => e.status === 404 && /nope/.test(e.message));
await assert.rejects(client.chat.completions.create({ ...params, max_tokens: 100000 }), (e) => e.status === 400 && e.code === "context_length_exceeded");

assert.equal((await client.models.list()).data.length > 0, true);
assert.ok((await client.models.retrieve("tl")).id);
console.log("ok");
