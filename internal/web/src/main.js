// The page: side column, conversation, question box.
import { render } from 'preact';
import { effect } from '@preact/signals';
import { Aside, Brand, drawer } from './aside.js';
import { Composer } from './composer.js';
import { conversation, settings } from './store.js';
import { announced, models, model, refresh, running, stop } from './talk.js';
import { language, text } from './text.js';
import { Thread } from './thread.js';
import { html } from './view.js';
import { Welcome } from './welcome.js';

function Page() {
  const t = text.value;
  const c = conversation.value;
  return html`
    <a class="skip" href="#question">${t.skip}</a>
    <header class="top">
      <button type="button" class="quiet" aria-expanded=${drawer.value ? 'true' : 'false'} aria-controls="side" onClick=${() => (drawer.value = !drawer.value)}>${t.menu}</button>
      <${Brand} />
    </header>
    <${Aside} />
    <main>
      ${model.value && models.value.length > 1 && html`<p class="which">${model.value.id}</p>`}
      ${c && c.turns.length ? html`<${Thread} />` : html`<${Welcome} />`}
      <${Composer} />
    </main>
    <p class="hidden" role="status" aria-live="polite">${announced.value}</p>`;
}

effect(() => {
  document.documentElement.lang = language.value;
  document.documentElement.dataset.theme = settings.value.theme ?? 'auto';
});

addEventListener('keydown', (e) => {
  if (e.key !== 'Escape') return;
  if (running.value) stop();
  else if (drawer.value) drawer.value = false;
});

refresh();
render(html`<${Page} />`, document.getElementById('app'));
