// The side column: name, conversations, language and theme. On narrow screens it is a drawer.
import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { box, refocus } from './composer.js';
import { row } from './pen.js';
import { conversations, current, remove, removeAll, set, settings, storable } from './store.js';
import { running, stop } from './talk.js';
import { language, text } from './text.js';
import { cls, html } from './view.js';

export const drawer = signal(false);
export const opener = { current: null }; // the button that opens the drawer

// closeDrawer gives the keyboard back to the button that opened it.
export function closeDrawer() {
  drawer.value = false;
  setTimeout(() => opener.current?.focus()); // when the page behind it takes the focus again
}

// A window that grows has room for the column.
matchMedia('(max-width: 52rem)').addEventListener('change', () => (drawer.value = false));

export function Brand() {
  return html`<span class="brand"><svg viewBox="0 0 50 24" width="50" height="24" aria-hidden="true"><path d=${row(4, 3, 19, 10, 15)} /></svg>TinyLoop</span>`;
}

function go(id) {
  if (id !== current.value && running.value) stop();
  current.value = id;
  drawer.value = false;
  setTimeout(() => box.current?.focus()); // when the page behind the drawer takes the focus again
}

export function Aside() {
  const t = text.value;
  const first = useRef(null);
  useEffect(() => {
    if (drawer.value) first.current.focus();
  }, [drawer.value]);
  return html`
    <aside id="side" class=${cls('side', drawer.value && 'open')} aria-label=${t.conversations}>
      <${Brand} />
      <button type="button" class="new" ref=${first} onClick=${() => go(null)}>${t.newChat}</button>
      <nav aria-label=${t.conversations}>
        <ul>${conversations.value.map((c) => html`
          <li key=${c.id} class=${cls(c.id === current.value && 'here')}>
            <button type="button" class="open" aria-current=${c.id === current.value ? 'page' : null} onClick=${() => go(c.id)}>${c.title || t.untitled}</button>
            <${Sure} label=${t.remove} sign="×" about=${c.title} act=${() => (running.value?.conversation === c.id && stop(), remove(c.id), refocus())} />
          </li>`)}
        </ul>
        ${conversations.value.length > 1 && html`<${Sure} label=${t.removeAll} act=${() => (stop(), removeAll(), refocus())} />`}
      </nav>
      <div class="below">
        ${!storable.value && html`<p class="note">${t.noStorage}</p>`}
        <${Theme} />
        <button type="button" class="quiet" lang=${language.value === 'fr' ? 'en' : 'fr'} onClick=${() => set({ language: language.value === 'fr' ? 'en' : 'fr' })}>${t.language}</button>
        <p class="note">${t.api} <code>${location.origin}/v1</code></p>
        <a class="note" href="/ui/licences.txt">${t.licences}</a>
      </div>
    </aside>
    ${drawer.value && html`<button type="button" class="veil" aria-label=${t.close} onClick=${closeDrawer}></button>`}`;
}

function Theme() {
  const t = text.value;
  const now = settings.value.theme ?? 'auto';
  return html`
    <fieldset class="theme">
      <legend class="hidden">${t.theme}</legend>
      ${['auto', 'light', 'dark'].map((k) => html`
        <label><input type="radio" name="theme" value=${k} checked=${now === k} onChange=${() => set({ theme: k === 'auto' ? undefined : k })} /><span>${t.themes[k]}</span></label>`)}
    </fieldset>`;
}

// Sure acts at the second press: what is deleted is gone.
function Sure({ label, sign, about, act }) {
  const [armed, arm] = useState(false);
  useEffect(() => {
    const over = armed && setTimeout(() => arm(false), 3000);
    return () => clearTimeout(over);
  }, [armed]);
  const name = armed ? text.value.sure : label;
  return html`<button type="button" class=${cls('quiet', 'small', 'sure', armed && 'armed')} aria-label=${about ? `${name} ${about}` : name}
    onClick=${() => (armed ? act() : arm(true))} onBlur=${() => arm(false)}>${armed || !sign ? name : sign}</button>`;
}
