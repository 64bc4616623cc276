// What the page remembers: conversations and settings, in signals that are written to the browser's storage.
//
//	conversation { id, title, from, turns: [turn] }       from: index of the first turn that the model still sees
//	turn         { id, kind: 'chat'|'complete', question, answers: [answer], shown }
//	answer       { text, loops, stats, end, error }       end: '' while it is being written; error: { code, detail }
import { computed, effect, signal } from '@preact/signals';

const key = 'tinyloop';
const kept = 60; // conversations
const read = load();

export const conversations = signal(read.conversations);
export const current = signal(read.conversations[0]?.id ?? null);
export const settings = signal(read.settings);
export const storable = signal(true);
export const conversation = computed(() => conversations.value.find((c) => c.id === current.value) ?? null);

function load() {
  const none = { conversations: [], settings: { loops: {} } };
  try {
    const got = JSON.parse(localStorage.getItem(key));
    if (got?.version !== 1 || !Array.isArray(got.conversations)) return none;
    return { conversations: got.conversations.map(settled), settings: { ...none.settings, ...got.settings } };
  } catch {
    return none;
  }
}

// settled ends answers that were being written when the page was left.
function settled(c) {
  return { ...c, turns: c.turns.map((t) => ({ ...t, answers: t.answers.map((a) => (a.end ? a : { ...a, end: 'stopped' })) })) };
}

// Storage may be full or forbidden: then the oldest conversations go first, and in the end the page says that nothing is kept.
effect(() => {
  const value = { version: 1, settings: settings.value };
  for (let list = conversations.value; ; list = list.slice(0, Math.floor(list.length / 2))) {
    try {
      localStorage.setItem(key, JSON.stringify({ ...value, conversations: list }));
      storable.value = true;
      return;
    } catch {
      if (list.length === 0) break;
    }
  }
  storable.value = false;
});

export const set = (changes) => (settings.value = { ...settings.value, ...changes });

const fresh = () => Date.now().toString(36) + Math.random().toString(36).slice(2, 8);

// addTurn puts a turn into the current conversation, or into a new one, and gives its id.
export function addTurn(turn) {
  const t = { id: fresh(), answers: [], shown: 0, ...turn };
  const c = conversation.value ?? { id: fresh(), title: title(turn.question), from: 0, turns: [] };
  const rest = conversations.value.filter((x) => x.id !== c.id);
  conversations.value = [{ ...c, turns: [...c.turns, t] }, ...rest].slice(0, kept);
  current.value = c.id;
  return t.id;
}

const title = (s) => (s.trim().length > 48 ? s.trim().slice(0, 47) + '…' : s.trim());

const update = (id, change) => (conversations.value = conversations.value.map((c) => (c.id === id ? change(c) : c)));

export const updateTurn = (cid, tid, change) => update(cid, (c) => ({ ...c, turns: c.turns.map((t) => (t.id === tid ? { ...t, ...change(t) } : t)) }));

// addAnswer begins another answer to a turn and shows it; setAnswer changes the last one.
export const addAnswer = (cid, tid, answer) => updateTurn(cid, tid, (t) => ({ answers: [...t.answers, answer], shown: t.answers.length }));
export const setAnswer = (cid, tid, changes) => updateTurn(cid, tid, (t) => ({ answers: [...t.answers.slice(0, -1), { ...t.answers.at(-1), ...changes }] }));
export const dropAnswer = (cid, tid) => updateTurn(cid, tid, (t) => ({ answers: t.answers.slice(0, -1), shown: Math.max(t.answers.length - 2, 0) }));

// forgetOldest lets the model see one exchange less.
export const forgetOldest = (cid) => update(cid, (c) => ({ ...c, from: Math.min(c.from + 1, c.turns.length - 1) }));

export function remove(id) {
  conversations.value = conversations.value.filter((c) => c.id !== id);
  if (current.value === id) current.value = null;
}

export function removeAll() {
  conversations.value = [];
  current.value = null;
}
