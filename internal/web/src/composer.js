// The question box with the loops, the settings and the button that sends or stops.
import { signal } from '@preact/signals';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { LoopsControl } from './loops.js';
import { set, settings } from './store.js';
import { ask, busy, kind, model, models, stop } from './talk.js';
import { text } from './text.js';
import { html } from './view.js';

export const draft = signal('');
export const box = { current: null };

// refocus leads the keyboard back to the question box when the control that had it goes away. On touch screens that would open the keyboard.
export const refocus = () => matchMedia('(pointer: coarse)').matches || box.current?.focus();

export function Composer() {
  const t = text.value;
  const completing = kind.value === 'complete';
  const area = useRef(null);
  box.current = area.current;
  useLayoutEffect(() => {
    box.current = area.current;
    const s = area.current.style;
    s.height = 'auto';
    s.height = `${Math.min(area.current.scrollHeight, innerHeight * 0.4)}px`;
  }, [draft.value]);
  const send = () => ask(draft.value) && ((draft.value = ''), refocus());
  const key = (e) => {
    if (e.key !== 'Enter' || e.shiftKey || composing(e)) return;
    e.preventDefault();
    send();
  };
  return html`
    <form class="composer" onSubmit=${(e) => (e.preventDefault(), busy.value ? stop() : send())}>
      <div class="write">
        <label for="question" class="hidden">${completing ? t.prompt : t.box}</label>
        <textarea id="question" ref=${area} rows="1" placeholder=${completing ? t.promptHint : t.boxHint} aria-describedby="keys" autofocus
          value=${draft.value} onInput=${(e) => (draft.value = e.target.value)} onKeyDown=${key}></textarea>
        ${busy.value
          ? html`<button type="button" class="go stop" key="stop" onClick=${halt}>${t.stop}</button>`
          : html`<button type="submit" class="go" key="send" onClick=${press} disabled=${!draft.value.trim()}>${t.send}</button>`}
      </div>
      <div class="tools">
        <${LoopsControl} />
        <${Settings} />
        <p id="keys" class="keys">${t.keys}</p>
      </div>
    </form>`;
}

// composing says whether a key belongs to an input method, which makes characters of several keys. Safari tells only by the code of the key.
export const composing = (e) => e.isComposing || e.keyCode === 229;

// Stop takes the place of Send: the second press of a double click on Send is none on Stop.
const doubleClick = 500; // milliseconds
let pressed = -doubleClick; // when a pointer pressed Send
const press = (e) => (pressed = e.detail > 0 ? performance.now() : -doubleClick);

function halt(e) {
  if (e.detail > 0 && performance.now() - pressed < doubleClick) return;
  stop();
  refocus();
}

function Settings() {
  const t = text.value;
  const s = settings.value;
  const whole = (v, least) => (v === '' || !Number.isFinite(Number(v)) ? undefined : Math.min(Math.max(least, Math.floor(Number(v))), Number.MAX_SAFE_INTEGER));
  const close = (e) => {
    if (e.key !== 'Escape' || composing(e) || !e.currentTarget.open) return;
    e.stopPropagation(); // it is not meant for the answer
    e.currentTarget.open = false;
    e.currentTarget.querySelector('summary').focus();
  };
  return html`
    <details class="settings" onKeyDown=${close}>
      <summary>${t.settings}</summary>
      <div class="sheet">
        ${models.value.length > 1 && html`
          <label for="model">${t.model}</label>
          <select id="model" value=${model.value.id} onChange=${(e) => set({ model: e.target.value, kind: undefined })}>
            ${models.value.map((m) => html`<option value=${m.id}>${m.id}</option>`)}
          </select>`}
        <fieldset class="kind">
          <legend>${t.kind}</legend>
          ${['chat', 'complete'].map((k) => html`
            <label><input type="radio" name="kind" value=${k} checked=${kind.value === k} onChange=${() => set({ kind: k })} /> ${t.kinds[k]}</label>`)}
        </fieldset>
        <label for="temperature">${t.temperature}</label>
        <input id="temperature" type="number" min="0" max="2" step="0.1" value=${s.temperature ?? 0} aria-describedby="temperature-hint"
          onChange=${(e) => set({ temperature: Math.min(2, Math.max(0, Number(e.target.value) || 0)) })} />
        <span id="temperature-hint" class="hint">${t.temperatureHint}</span>
        <label for="max-tokens">${t.maxTokens}</label>
        <input id="max-tokens" type="number" min="1" step="1" value=${s.maxTokens ?? ''} placeholder=${t.noLimit} onChange=${(e) => set({ maxTokens: whole(e.target.value, 1) })} />
        <label for="seed">${t.seed}</label>
        <input id="seed" type="number" min="0" step="1" value=${s.seed ?? ''} placeholder=${t.random} onChange=${(e) => set({ seed: whole(e.target.value, 0) })} />
        ${kind.value === 'chat' && html`
          <label for="system" class="wide">${t.system}</label>
          <textarea id="system" class="wide" rows="2" value=${s.system ?? ''} placeholder=${t.systemHint} onChange=${(e) => set({ system: e.target.value.trim() || undefined })}></textarea>`}
      </div>
    </details>`;
}
