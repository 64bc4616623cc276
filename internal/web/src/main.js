// The page: side column, conversation, question box.
import { render } from 'preact';
import { useErrorBoundary } from 'preact/hooks';
import { effect } from '@preact/signals';
import { Aside, Brand, closeDrawer, drawer, opener } from './aside.js';
import { Composer, composing } from './composer.js';
import { conversation, removeAll, settings } from './store.js';
import { announced, models, model, refresh, running, stop } from './talk.js';
import { language, text } from './text.js';
import { Thread } from './thread.js';
import { html } from './view.js';
import { Welcome } from './welcome.js';

function Page() {
  const [error] = useErrorBoundary();
  if (error) return html`<${Broken} error=${error} />`;
  const t = text.value;
  const c = conversation.value;
  return html`
    <a class="skip" href="#question">${t.skip}</a>
    <header class="top">
      <button type="button" class="quiet" ref=${opener} aria-expanded=${drawer.value ? 'true' : 'false'} aria-controls="side" onClick=${() => (drawer.value = !drawer.value)}>${t.menu}</button>
      <${Brand} />
    </header>
    <${Aside} />
    <main inert=${drawer.value}>
      ${model.value && models.value.length > 1 && html`<p class="which">${model.value.id}</p>`}
      ${c && c.turns.length ? html`<${Thread} />` : html`<${Welcome} />`}
      <${Composer} />
    </main>
    <p class="hidden" role="status" aria-live="polite">${announced.value}</p>`;
}

// Broken stands in for a page that cannot be drawn. What made it fail may be kept, so there must be a way to be rid of it.
function Broken({ error }) {
  const t = text.value;
  return html`
    <main>
      <div class="trouble" role="alert">
        <p>${t.pageBroke}</p>
        <p class="detail" lang="en">${String(error)}</p>
        <p class="acts">
          <button type="button" onClick=${() => location.reload()}>${t.reload}</button>
          <button type="button" onClick=${() => (stop(), removeAll(), location.reload())}>${t.forgetAll}</button>
        </p>
      </div>
    </main>`;
}

effect(() => {
  document.documentElement.lang = language.value;
  document.documentElement.dataset.theme = settings.value.theme ?? 'auto';
});

addEventListener('keydown', (e) => {
  if (e.key !== 'Escape' || composing(e)) return;
  if (drawer.value) closeDrawer();
  else if (running.value) stop();
});

refresh();
render(html`<${Page} />`, document.getElementById('app'));
