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

// Tools: a call, whole and with the stream helper, and the answer to its result.
const tools = [{ type: "function", function: { name: "get_weather", strict: true, parameters: {
  type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false } } }];
const question = { model: "inside", temperature: 0, max_tokens: 80, tools, tool_choice: "required", parallel_tool_calls: false,
  messages: [{ role: "user", content: "What is the weather in Rome?" }] };
const called = (await client.chat.completions.create(question)).choices[0];
assert.equal(called.finish_reason, "tool_calls");
assert.equal(called.message.content, null);
const call = called.message.tool_calls[0];
assert.equal(call.function.name, "get_weather");
assert.equal(typeof JSON.parse(call.function.arguments).city, "string");
const streamed = await client.chat.completions.stream(question).finalChatCompletion();
assert.equal(streamed.choices[0].message.tool_calls[0].function.arguments, call.function.arguments);
assert.equal(streamed.choices[0].finish_reason, "tool_calls");
const told = await client.chat.completions.create({ ...question, tool_choice: "auto",
  messages: [...question.messages, called.message, { role: "tool", tool_call_id: call.id, content: '{"sky":"sunny","degrees":14}' }] });
assert.ok(told.choices[0].message.content || told.choices[0].message.tool_calls);

// JSON: whatever the dice say, it parses and obeys.
for (let seed = 0; seed < 5; seed++) {
  const res = await client.chat.completions.create({ model: "inside", seed, max_tokens: 80, messages: question.messages,
    response_format: { type: "json_schema", json_schema: { name: "a", strict: true, schema: {
      type: "object", properties: { city: { enum: ["Rome", "Paris"] }, degrees: { type: "integer" } }, required: ["city", "degrees"], additionalProperties: false } } } });
  const got = JSON.parse(res.choices[0].message.content);
  assert.ok(["Rome", "Paris"].includes(got.city) && Number.isInteger(got.degrees), res.choices[0].message.content);
}

// Errors keep their message and are not tried again.
await assert.rejects(client.chat.completions.create({ ...params, top_p: 7 }), (e) => e.status === 422 && /top_p/.test(e.message) && e.param === "top_p");
await assert.rejects(client.chat.completions.create({ ...params, model: "nope" }), (e) => e.status === 404 && /nope/.test(e.message));
await assert.rejects(client.chat.completions.create({ ...params, max_tokens: 100000 }), (e) => e.status === 400 && e.code === "context_length_exceeded");

assert.equal((await client.models.list()).data.length > 0, true);
assert.ok((await client.models.retrieve("tl")).id);
console.log("ok");
