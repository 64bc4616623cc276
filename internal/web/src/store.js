// What the page remembers: conversations and settings, in signals that are written to the browser's storage.
//
//	conversation { id, title, at, from, turns: [turn] }   at: when it was last asked something; from: index of the first turn that the model still sees
//	turn         { id, kind: 'chat'|'complete', question, answers: [answer], shown }
//	answer       { id, text, loops, stats, end, error }   end: '' while it is being written; error: { code, detail }
//
// Each conversation is an entry of its own, so that two tabs do not write over each other's, and a tab hears of what another one writes.
import { computed, effect, signal } from '@preact/signals';
import { conversationOf, parsed, settingsOf } from './kept.js';

const settingsKey = 'tinyloop.settings', prefix = 'tinyloop.conversation.';
const most = 60; // conversations

// running is the answer being written here: { conversation, turn, answer, text, tokens, since, stop }. Its text grows here, and moves into the
// conversation when it ends.
export const running = signal(null);
export const storable = signal(true);
export const settings = signal(settingsOf(parsed(read(settingsKey))));
export const conversations = signal(newestFirst(entries().map((k) => conversationOf(parsed(read(k)))).filter(Boolean)));
export const current = signal(conversations.value[0]?.id ?? null);
export const conversation = computed(() => conversations.value.find((c) => c.id === current.value) ?? null);

// Storage may be forbidden: then every access throws.
function read(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function entries() {
  try {
    return Array.from({ length: localStorage.length }, (_, i) => localStorage.key(i)).filter((k) => k.startsWith(prefix));
  } catch {
    return [];
  }
}

function newestFirst(list) {
  return list.sort((a, b) => b.at - a.at).slice(0, most);
}

// write puts an entry into the storage. Where that is full, the conversations asked least recently make room for it.
function write(key, value) {
  const text = JSON.stringify(value);
  const old = newestFirst(conversations.peek().slice()).map((c) => prefix + c.id).filter((k) => k !== key && k !== prefix + current.peek());
  for (;;) {
    try {
      localStorage.setItem(key, text);
      return true;
    } catch {
      let room;
      do room = old.pop();
      while (room && read(room) === null);
      if (!room) return false;
      localStorage.removeItem(room);
    }
  }
}

function erase(key) {
  try {
    localStorage.removeItem(key);
  } catch {
    // nothing was kept there
  }
}

effect(() => {
  if (!write(settingsKey, settings.value)) storable.value = false;
});

// written has each conversation as the storage has it, so that only what changes is written.
const written = new Map(conversations.value.map((c) => [c.id, c]));

effect(() => {
  const list = conversations.value;
  for (const id of [...written.keys()].filter((id) => !list.some((c) => c.id === id))) {
    written.delete(id);
    erase(prefix + id);
  }
  for (const c of list.filter((c) => written.get(c.id) !== c)) {
    written.set(c.id, c);
    storable.value = write(prefix + c.id, c);
  }
});

addEventListener('storage', (e) => {
  if (e.key === null) return conversations.value.forEach((c) => heard(c.id, null)); // all was deleted
  if (e.key === settingsKey) settings.value = settingsOf(parsed(e.newValue));
  if (e.key.startsWith(prefix)) heard(e.key.slice(prefix.length), parsed(e.newValue));
});

// heard takes over what another tab wrote of a conversation. One that it deleted stays while it is answered here.
function heard(id, value) {
  const run = running.peek();
  const ours = conversations.peek().find((c) => c.id === id);
  const busy = run?.conversation === id;
  const theirs = conversationOf(value, true);
  if (value && !theirs) return; // another version's
  if (!theirs) {
    written.delete(id);
    if (!busy) conversations.value = conversations.value.filter((c) => c.id !== id);
    return;
  }
  const got = busy && ours ? withTurn(theirs, ours.turns.find((t) => t.id === run.turn)) : theirs;
  written.set(id, got);
  conversations.value = newestFirst([got, ...conversations.value.filter((c) => c.id !== id)]);
}

// withTurn puts a turn in the place of its other version, or at the end.
function withTurn(c, turn) {
  const has = c.turns.some((t) => t.id === turn.id);
  return { ...c, turns: has ? c.turns.map((t) => (t.id === turn.id ? turn : t)) : [...c.turns, turn] };
}

export const set = (changes) => (settings.value = { ...settings.value, ...changes });

export const fresh = () => Date.now().toString(36) + Math.random().toString(36).slice(2, 8);

// addTurn puts a turn into the current conversation, or into a new one, and gives its id.
export function addTurn(turn) {
  const t = { id: fresh(), answers: [], shown: 0, ...turn };
  const c = conversation.value ?? { id: fresh(), title: title(turn.question), from: 0, turns: [] };
  const rest = conversations.value.filter((x) => x.id !== c.id);
  conversations.value = [{ ...c, at: Date.now(), turns: [...c.turns, t] }, ...rest].slice(0, most);
  current.value = c.id;
  return t.id;
}

const title = (s) => (s.trim().length > 48 ? s.trim().slice(0, 47) + '…' : s.trim());

const update = (id, change) => (conversations.value = conversations.value.map((c) => (c.id === id ? change(c) : c)));

export const updateTurn = (cid, tid, change) => update(cid, (c) => ({ ...c, turns: c.turns.map((t) => (t.id === tid ? { ...t, ...change(t) } : t)) }));

// addAnswer begins another answer to a turn and shows it.
export const addAnswer = (cid, tid, answer) => updateTurn(cid, tid, (t) => ({ answers: [...t.answers, answer], shown: t.answers.length }));
export const setAnswer = (cid, tid, id, changes) => updateTurn(cid, tid, (t) => ({ answers: t.answers.map((a) => (a.id === id ? { ...a, ...changes } : a)) }));
export const dropAnswer = (cid, tid) => updateTurn(cid, tid, (t) => ({ answers: t.answers.slice(0, -1), shown: Math.max(t.answers.length - 2, 0) }));

// forgetOldest lets the model see one exchange less, and says whether there was one.
export function forgetOldest(cid) {
  const c = conversations.value.find((x) => x.id === cid);
  if (!c || c.from >= c.turns.length - 1) return false;
  update(cid, (x) => ({ ...x, from: x.from + 1 }));
  return true;
}

export function remove(id) {
  conversations.value = conversations.value.filter((c) => c.id !== id);
  if (current.value === id) current.value = null;
}

export function removeAll() {
  conversations.value = [];
  current.value = null;
}
