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
  const send = () => ask(draft.value) && (draft.value = '');
  const key = (e) => {
    if (e.key !== 'Enter' || e.shiftKey || e.isComposing) return;
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
          ? html`<button type="button" class="go stop" key="stop" onClick=${stop}>${t.stop}</button>`
          : html`<button type="submit" class="go" key="send" disabled=${!draft.value.trim()}>${t.send}</button>`}
      </div>
      <div class="tools">
        <${LoopsControl} />
        <${Settings} />
        <p id="keys" class="keys">${t.keys}</p>
      </div>
    </form>`;
}

function Settings() {
  const t = text.value;
  const s = settings.value;
  const whole = (v, least) => (v === '' || !Number.isFinite(Number(v)) ? undefined : Math.max(least, Math.floor(Number(v))));
  return html`
    <details class="settings" onKeyDown=${(e) => e.key === 'Escape' && (e.currentTarget.open = false)}>
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
