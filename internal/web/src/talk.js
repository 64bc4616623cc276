// Asking and answering: what is sent, what comes back, and how it is stopped.
import { batch, computed, signal } from '@preact/signals';
import { Failure, models as fetchModels, stream } from './api.js';
import { addAnswer, addTurn, conversations, current, dropAnswer, forgetOldest, set, setAnswer, settings, updateTurn } from './store.js';
import { text } from './text.js';

export const models = signal([]);
export const trouble = signal(null); // why there are no models: { code, detail }
export const model = computed(() => models.value.find((m) => m.id === settings.value.model) ?? models.value[0] ?? null);
export const loops = computed(() => (model.value ? (settings.value.loops[model.value.id] ?? model.value.loops.standard) : 1));
export const kind = computed(() => settings.value.kind ?? (model.value?.chat === false ? 'complete' : 'chat'));

// running is the answer being written: { conversation, turn, text, tokens, since, stop }. Its text grows here, and moves into the store when it ends.
export const running = signal(null);
export const busy = computed(() => running.value !== null);
const at = computed(() => running.value && `${running.value.conversation}/${running.value.turn}`);
export const announced = signal(''); // for screen readers

export async function refresh() {
  try {
    models.value = await fetchModels();
    trouble.value = models.value.length ? null : { code: 'no_model' };
  } catch (e) {
    trouble.value = { code: e.code ?? 'offline', detail: e.detail };
  }
}

export const setLoops = (n) => set({ loops: { ...settings.value.loops, [model.value.id]: n } });

export function ask(question, as = kind.value) {
  if (running.value || !question.trim()) return false;
  if (!models.value.length) refresh();
  const id = addTurn({ kind: as, question: as === 'chat' ? question.trim() : question });
  answer(current.value, id);
  return true;
}

export const again = (turn) => running.value || answer(current.value, turn.id);

// retry replaces an answer that failed.
export function retry(turn) {
  if (running.value) return;
  dropAnswer(current.value, turn.id);
  answer(current.value, turn.id);
}

export function forgetAndRetry(turn) {
  if (running.value) return;
  forgetOldest(current.value);
  retry(turn);
}

export const stop = () => running.value?.stop.abort();

async function answer(cid, tid) {
  const c = conversations.value.find((x) => x.id === cid);
  const turn = c.turns.find((t) => t.id === tid);
  const run = { conversation: cid, turn: tid, text: '', tokens: 0, since: performance.now(), stop: new AbortController() };
  batch(() => {
    addAnswer(cid, tid, { text: '', loops: loops.value, end: '' });
    running.value = run;
    announced.value = text.value.writing;
  });
  const paint = painter(run);
  let stats = null;
  const frame = (f) => {
    const choice = f.choices?.[0];
    const piece = choice?.delta?.content ?? choice?.text ?? '';
    if (piece) {
      run.text += piece;
      run.tokens++;
      run.first ??= performance.now();
      paint.soon();
    }
    stats = choice?.stats ?? stats;
  };
  let result;
  try {
    await stream(turn.kind === 'chat' ? '/v1/chat/completions' : '/v1/completions', request(c, turn), run.stop.signal, frame);
    result = { end: stats?.stop_reason ?? 'eosFound', stats };
  } catch (e) {
    result = e.name === 'AbortError' ? { end: 'stopped' } : { end: 'failed', error: e instanceof Failure ? { code: e.code, detail: e.detail } : { code: 'broken', detail: String(e) } };
  }
  paint.end();
  batch(() => {
    setAnswer(cid, tid, { text: run.text, loops: stats?.loops ?? loops.value, ...result });
    running.value = null;
    announced.value = result.error ? '' : text.value.answered(run.text);
  });
}

// painter shows what has come at most once a frame: tokens come faster than screens draw.
function painter(run) {
  let asked = 0;
  const show = () => {
    asked = 0;
    if (running.value?.turn === run.turn) running.value = { ...run };
  };
  return { soon: () => (asked ||= requestAnimationFrame(show)), end: () => cancelAnimationFrame(asked) };
}

// request is the body for a turn. What is left to the server's default is not sent.
function request(c, turn) {
  const s = settings.value;
  const body = { model: model.value?.id ?? 'tl', temperature: s.temperature ?? 0 };
  if (model.value?.loops.most > 1) body.loops = loops.value;
  if (s.maxTokens) body.max_tokens = s.maxTokens;
  if (s.seed != null) body.seed = s.seed;
  if (turn.kind === 'complete') return { ...body, prompt: turn.question };
  return { ...body, messages: messages(c, turn) };
}

function messages(c, turn) {
  const list = settings.value.system ? [{ role: 'system', content: settings.value.system }] : [];
  for (const t of c.turns.slice(c.from, c.turns.indexOf(turn))) {
    const said = t.answers[t.shown]?.text;
    if (t.kind === 'chat' && said) list.push({ role: 'user', content: t.question }, { role: 'assistant', content: said });
  }
  return [...list, { role: 'user', content: turn.question }];
}

export const show = (turn, k) => updateTurn(current.value, turn.id, () => ({ shown: k }));

// isRunning tells views whether a turn is being answered; they are not drawn again with every token.
export const isRunning = (turn) => at.value === `${current.value}/${turn.id}`;
