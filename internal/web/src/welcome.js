// What stands on an empty page: a word about the model, and questions to begin with.
import { box, draft } from './composer.js';
import { ask, model, refresh, trouble } from './talk.js';
import { size, text } from './text.js';
import { html } from './view.js';

const questions = ['Qui est Passepartout ?', 'Qui est Fix ?', "Quelle est la capitale de l'Espagne ?", 'Capital of France?', 'Count to 5.', 'Hi',
  'Mia is with Tom. Tom is with Zoe. Zoe is in Oslo. Where is Mia?'];
const beginnings = ['The meaning of life is', 'Once upon a time'];

export function Welcome() {
  const t = text.value;
  const m = model.value;
  const base = m && !m.chat;
  const lists = [html`<${Examples} name=${t.examplesAsk} list=${questions} as="chat" />`, html`<${Examples} name=${t.examplesContinue} list=${beginnings} as="complete" />`];
  return html`
    <section class="welcome">
      <h1>${t.hello}</h1>
      ${trouble.value && html`<div class="trouble" role="alert"><p>${t.errors[trouble.value.code] ?? t.errors.offline}</p>
        <p class="acts"><button type="button" onClick=${() => refresh()}>${t.retry}</button></p></div>`}
      ${m && html`<p class="intro">${base ? t.baseModel : t.intro({ size: size(m.parameters), loops: m.loops.most })}</p>`}
      ${m && html`<div class="examples">${base ? lists.reverse() : lists}</div>`}
    </section>`;
}

function Examples({ name, list, as }) {
  const pick = (q) => {
    if (!ask(q, as)) draft.value = q;
    box.current?.focus();
  };
  return html`
    <div role="group" aria-label=${name}>
      <h2>${name}</h2>
      <ul>${list.map((q) => html`<li><button type="button" class="example" onClick=${() => pick(q)}>${q}</button></li>`)}</ul>
    </div>`;
}
