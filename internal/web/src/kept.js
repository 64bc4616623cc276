// What comes out of the storage, made to have the shape that the page works with: another version of the page may have written it, or a hand.

const isText = (x) => typeof x === 'string';
const isObject = (x) => typeof x === 'object' && x !== null && !Array.isArray(x);
const list = (x, each) => (Array.isArray(x) ? x : []).map(each).filter(Boolean);
const whole = (x, least, most) => (Number.isSafeInteger(x) ? Math.min(Math.max(x, least), most) : least);
const number = (x) => (Number.isFinite(x) ? x : 0);

// parsed reads JSON, null where it is none.
export function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

// conversationOf gives a conversation, or null where there is nothing to show. Answers that were being written when their page was left have ended,
// unless another page is at work (live).
export function conversationOf(x, live) {
  if (!isObject(x) || !isText(x.id)) return null;
  const turns = list(x.turns, (t) => turnOf(t, live));
  if (!turns.length) return null;
  return { id: x.id, title: isText(x.title) ? x.title : '', at: number(x.at), from: whole(x.from, 0, turns.length - 1), turns };
}

function turnOf(x, live) {
  if (!isObject(x) || !isText(x.id) || !isText(x.question)) return null;
  const answers = list(x.answers, (a) => answerOf(a, live));
  return { id: x.id, kind: x.kind === 'complete' ? 'complete' : 'chat', question: x.question, answers, shown: whole(x.shown, 0, Math.max(answers.length - 1, 0)) };
}

function answerOf(x, live) {
  if (!isObject(x) || !isText(x.text)) return null;
  const end = isText(x.end) ? x.end : '';
  return {
    id: isText(x.id) ? x.id : '', text: x.text, loops: whole(x.loops, 1, 1024), end: end || (live ? '' : 'stopped'),
    stats: isObject(x.stats) ? statsOf(x.stats) : undefined, error: isObject(x.error) ? { code: String(x.error.code), detail: isText(x.error.detail) ? x.error.detail : '' } : undefined,
  };
}

const statsOf = (x) => ({
  completion_tokens: number(x.completion_tokens), ttft_ms: number(x.ttft_ms), tokens_per_second: number(x.tokens_per_second), seed: number(x.seed),
  warnings: list(x.warnings, (w) => isText(w) && w),
});

// settingsOf keeps what is known and in its range; what is absent is the default.
export function settingsOf(x) {
  const s = isObject(x) ? x : {};
  const oneOf = (v, ...of) => (of.includes(v) ? v : undefined);
  return {
    theme: oneOf(s.theme, 'light', 'dark'), language: oneOf(s.language, 'en', 'fr'), kind: oneOf(s.kind, 'chat', 'complete'), model: isText(s.model) ? s.model : undefined,
    temperature: Number.isFinite(s.temperature) ? Math.min(2, Math.max(0, s.temperature)) : undefined,
    maxTokens: Number.isSafeInteger(s.maxTokens) && s.maxTokens > 0 ? s.maxTokens : undefined, seed: Number.isSafeInteger(s.seed) && s.seed >= 0 ? s.seed : undefined,
    system: isText(s.system) ? s.system : undefined,
    loops: Object.fromEntries(Object.entries(isObject(s.loops) ? s.loops : {}).filter(([, n]) => Number.isSafeInteger(n) && n > 0)),
  };
}
