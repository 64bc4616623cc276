// Asking and answering: what is sent, what comes back, and how it is stopped.
import { batch, computed, signal } from '@preact/signals';
import { Failure, models as fetchModels, stream } from './api.js';
import { addAnswer, addTurn, conversations, current, dropAnswer, forgetOldest, fresh, running, set, setAnswer, settings, updateTurn } from './store.js';
import { text } from './text.js';

export { running };
export const models = signal([]);
export const trouble = signal(null); // why there are no models: { code, detail }
export const model = computed(() => models.value.find((m) => m.id === settings.value.model) ?? models.value[0] ?? null);
export const loops = computed(() => (model.value ? loopsOf(model.value) : 1));
export const kind = computed(() => settings.value.kind ?? (model.value?.chat === false ? 'complete' : 'chat'));

export const busy = computed(() => running.value !== null);
const at = computed(() => running.value && `${running.value.conversation}/${running.value.turn}`);
export const announced = signal(''); // for screen readers

// loopsOf is what was chosen for a model, within what it takes: one of the same name may have taken more.
function loopsOf(m) {
  const chosen = settings.value.loops[m.id];
  return Number.isSafeInteger(chosen) ? Math.min(Math.max(chosen, 1), m.loops.most) : m.loops.standard;
}

export async function refresh(signal) {
  try {
    models.value = await fetchModels(signal);
    trouble.value = models.value.length ? null : { code: 'no_model' };
  } catch (e) {
    if (e.name === 'AbortError') return;
    trouble.value = { code: e.code ?? 'offline', detail: e.detail };
  }
}

export const setLoops = (n) => set({ loops: { ...settings.value.loops, [model.value.id]: n } });

export function ask(question, as = kind.value) {
  if (running.value || !question.trim()) return false;
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

// forgetAndRetry lets the model see fewer and fewer of the oldest exchanges, until the question fits.
export function forgetAndRetry(turn) {
  if (running.value) return;
  forgetOldest(current.value);
  dropAnswer(current.value, turn.id);
  answer(current.value, turn.id, true);
}

export const stop = () => running.value?.stop.abort();

// answer writes one answer to a turn. Where forget is set, what does not fit the window is left out.
async function answer(cid, tid, forget) {
  const run = { conversation: cid, turn: tid, answer: fresh(), text: '', tokens: 0, since: performance.now(), stop: new AbortController() };
  batch(() => {
    addAnswer(cid, tid, { id: run.answer, text: '', loops: loops.value, end: '' });
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
  const result = await outcome(run, forget, frame);
  paint.end();
  batch(() => {
    setAnswer(cid, tid, run.answer, { text: run.text, loops: stats?.loops ?? run.loops ?? loops.value, stats, end: stats?.stop_reason ?? 'eosFound', ...result });
    running.value = null;
    announced.value = result?.error ? '' : text.value.answered(run.text.length > aloud ? run.text.slice(0, aloud) + '…' : run.text);
  });
}

const aloud = 2000; // characters of an answer that are told

// outcome asks, and says how that ended where it did not end by itself. Without a list of models, or with one that proves old, that is asked for first.
async function outcome(run, forget, frame) {
  try {
    if (!model.value || trouble.value) await refresh(run.stop.signal);
    for (;;) {
      const c = conversations.value.find((x) => x.id === run.conversation);
      const turn = c?.turns.find((t) => t.id === run.turn);
      if (!turn) return { end: 'stopped' }; // it was deleted meanwhile
      const body = request(c, turn);
      run.loops = body.loops ?? 1;
      try {
        await stream(turn.kind === 'chat' ? '/v1/chat/completions' : '/v1/completions', body, run.stop.signal, frame);
        return null;
      } catch (e) {
        if (!forget || e.code !== 'context_length_exceeded' || !forgetOldest(run.conversation)) throw e;
      }
    }
  } catch (e) {
    if (run.stop.signal.aborted) return { end: 'stopped' };
    const error = e instanceof Failure ? { code: e.code, detail: e.detail } : { code: 'broken', detail: String(e) };
    if (stale.includes(error.code)) refresh(); // another server, or another model, may be there by now
    return { end: 'failed', error };
  }
}

const stale = ['offline', 'broken', 'no_model', 'model_not_found'];

// painter shows what has come, at most once a frame: tokens come faster than screens draw. A long text takes a while to draw; then it is drawn so
// seldom that three quarters of the time are left for the rest of the page.
function painter(run) {
  let frame = 0, pause = 0, drawing = false, more = false;
  const soon = () => {
    more = true;
    if (!drawing && !pause) frame ||= requestAnimationFrame(draw);
  };
  const draw = () => {
    frame = 0;
    if (running.value?.answer !== run.answer) return;
    drawing = true;
    more = false;
    const began = performance.now();
    running.value = { ...run };
    requestAnimationFrame(() => setTimeout(drawn, 0, began));
  };
  const drawn = (began) => {
    drawing = false;
    pause = setTimeout(rested, Math.max(0, 3 * (performance.now() - began - 2 * tick)));
  };
  const rested = () => {
    pause = 0;
    if (more) soon();
  };
  return { soon, end: () => (cancelAnimationFrame(frame), clearTimeout(pause)) };
}

const tick = 16; // milliseconds of a frame

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

// A page that is left, or that a phone may drop in the background, keeps what has been written.
function keep(changes) {
  const run = running.value;
  if (run) setAnswer(run.conversation, run.turn, run.answer, { text: run.text, ...changes });
}
addEventListener('pagehide', () => {
  keep({ end: 'stopped' });
  stop();
});
document.addEventListener('visibilitychange', () => document.hidden && keep());
