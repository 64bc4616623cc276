// The server as the page sees it: the list of models, and streams of frames.

// Failure is an error with a code that the page has words for, and the server's own words.
export class Failure extends Error {
  constructor(code, detail = '') {
    super(detail || code);
    this.code = code;
    this.detail = detail;
  }
}

const known = ['no_model', 'model_not_found', 'context_length_exceeded', 'queue_full', 'unavailable', 'timeout'];

// failure turns OpenAI's error object into a Failure.
function failure(error, status) {
  const code = known.includes(error?.code) ? error.code : status >= 500 ? 'internal' : status === 429 ? 'queue_full' : 'invalid';
  return new Failure(code, code === 'internal' ? '' : error?.message);
}

async function call(path, options) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch (e) {
    if (e.name === 'AbortError') throw e;
    throw new Failure('offline');
  }
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => null);
  throw failure(body?.error, answer.status);
}

// models gives what is loaded, the default first.
export async function models(signal) {
  const list = await (await call('/v1/models', { signal, headers: { Accept: 'application/json' } })).json();
  return list.data.map((m) => ({
    id: m.id, chat: m.meta.chat, parameters: m.meta.n_params, window: m.max_model_len, family: m.meta.family,
    loops: { standard: m.loops.default, from: m.loops.trained_min, to: m.loops.trained_max, most: m.max_loops },
  }));
}

// stream posts a request and calls frame with every object of the answer's event stream, as it comes. Aborting signal closes the connection, and the
// server stops computing. A server that has nothing to say sends a comment every five seconds: one that is silent for much longer is gone, though
// the connection may never say so.
export async function stream(path, body, signal, frame) {
  const watch = silence();
  try {
    const answer = await call(path, {
      method: 'POST', signal: AbortSignal.any([signal, watch.signal]), headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ ...body, stream: true }),
    });
    for await (const got of objects(answer.body, watch.heard)) frame(got);
  } catch (e) {
    if (e instanceof Failure || signal.aborted) throw e;
    throw new Failure('broken');
  } finally {
    watch.end();
  }
}

// objects reads the data lines of an event stream up to [DONE].
async function* objects(body, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) throw new Failure('broken');
      heard();
      const lines = (rest + value).split('\n');
      rest = lines.pop();
      for (const line of lines) {
        if (!line.startsWith('data: ')) continue; // a blank line, or a comment that keeps the connection open
        if (line === 'data: [DONE]') return;
        const got = JSON.parse(line.slice(6));
        if (got.error) throw failure(got.error, 500);
        yield got;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// silence aborts its signal when heard has not been called for half a minute. It counts seconds that the page was awake: a machine that slept is no silent server.
function silence() {
  const gone = new AbortController();
  let quiet = 0;
  const timer = setInterval(() => ++quiet > patience && gone.abort(), 1000);
  return { signal: gone.signal, heard: () => (quiet = 0), end: () => clearInterval(timer) };
}

const patience = 30; // seconds
