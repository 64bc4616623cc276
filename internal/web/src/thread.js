// The conversation: questions, answers, what each answer cost, and what went wrong.
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { useComputed } from '@preact/signals';
import { html as markdown } from './markdown.js';
import { Scribble } from './loops.js';
import { refocus } from './composer.js';
import { conversation } from './store.js';
import { again, forgetAndRetry, isRunning, retry, running, show } from './talk.js';
import { duration, number, text } from './text.js';
import { cls, html } from './view.js';

export function Thread() {
  const c = conversation.value;
  return html`
    <div class="thread">
      <h1 class="hidden">${c.title}</h1>
      ${c.turns.map((turn, i) => html`
        <${Turn} key=${turn.id} turn=${turn} last=${i === c.turns.length - 1} forgotten=${i < c.from} />
        ${i === c.from - 1 && html`<p class="forgotten" key=${turn.id + 'f'}>${text.value.forgotten}</p>`}`)}
      <${Follow} c=${c} />
    </div>`;
}

// Follow keeps the end in sight while text comes, unless the reader has scrolled up.
function Follow({ c }) {
  const height = useRef(0);
  const id = useRef(null);
  const live = running.value;
  useLayoutEffect(() => {
    const page = document.scrollingElement;
    const near = page.scrollTop + innerHeight > height.current - 120;
    const fresh = id.current !== c.id + c.turns.length;
    if (near || fresh) page.scrollTop = page.scrollHeight;
    height.current = page.scrollHeight;
    id.current = c.id + c.turns.length;
  }, [live, c]);
  return null;
}

function Turn({ turn, last, forgotten }) {
  const t = text.value;
  const busy = isRunning(turn);
  const answer = turn.answers[turn.shown];
  return html`
    <article class=${cls('turn', turn.kind, forgotten && 'faded')}>
      <h2 class="question"><span class="hidden">${t.you}: </span>${turn.question}</h2>
      ${answer && html`
        <div class=${cls('answer', answer.error && !answer.text && 'failed')} aria-busy=${busy ? 'true' : 'false'}>
          <h3 class="hidden">${t.answer}</h3>
          ${busy ? html`<${Live} kind=${turn.kind} />` : html`<${Body} kind=${turn.kind} said=${answer.text} ended=${!answer.error && (answer.end ? 'here' : 'elsewhere')} />`}
          ${answer.error && html`<${Trouble} error=${answer.error} turn=${turn} last=${last} />`}
        </div>
        ${busy ? html`<${Pace} />` : html`<${Foot} turn=${turn} answer=${answer} last=${last} />`}`}
    </article>`;
}

// Live is the answer that is being written: only this part is drawn again as tokens come.
function Live({ kind }) {
  const said = useComputed(() => running.value?.text ?? '').value;
  return html`<${Body} kind=${kind} said=${said} live />`;
}

// Body shows the text of an answer; a very long one is given its form when it is whole. Whatever else is shown of its tokens one day (what each loop would have said) belongs beside this.
function Body({ kind, said, live, ended }) {
  if (!said) return live ? html`<p class="wait">${text.value.waiting}</p>` : ended && html`<p class="wait">${ended === 'elsewhere' ? text.value.writing : text.value.empty}</p>`;
  if (kind === 'complete' || (live && said.length > 20_000)) return html`<div class=${cls('text', 'plain', live && 'live')}>${said}</div>`;
  return html`<${Formatted} said=${said} live=${live} />`;
}

function Formatted({ said, live }) {
  const made = useMemo(() => ({ __html: markdown(said) }), [said]);
  return html`<div class=${cls('text', live && 'live')} dangerouslySetInnerHTML=${made}></div>`;
}

// Pace is the line under an answer that is being written.
function Pace() {
  const r = running.value;
  if (!r?.first) return html`<p class="foot"></p>`;
  const seconds = (performance.now() - r.first) / 1000;
  const rate = r.tokens > 1 && seconds > 0.2 ? (r.tokens - 1) / seconds : null;
  return html`<p class="foot"><span>${text.value.tokens(r.tokens)}</span>${rate && html`<span>${number(rate)} ${text.value.speed}</span>`}</p>`;
}

function Foot({ turn, answer, last }) {
  const t = text.value;
  const s = answer.stats;
  if (answer.error && !answer.text && turn.answers.length === 1) return null;
  const k = turn.shown;
  const same = k > 0 && !answer.error && s && answer.text === turn.answers[k - 1].text && answer.loops === turn.answers[k - 1].loops;
  return html`
    <div class="foot">
      <span class="made"><${Scribble} n=${answer.loops} />${t.loopsValue(answer.loops)}</span>
      ${s && html`
        <span title=${t.seedUsed(s.seed)}>${t.tokens(s.completion_tokens)}</span>
        <span>${t.first} ${duration(s.ttft_ms)}</span>
        ${s.tokens_per_second > 0 && html`<span>${number(s.tokens_per_second)} ${t.speed}</span>`}`}
      ${t.ends[answer.end] && html`<span class="end">${t.ends[answer.end]}</span>`}
      <span class="acts">
        ${turn.answers.length > 1 && html`<${Pager} turn=${turn} />`}
        ${answer.text && html`<${Copy} said=${answer.text} />`}
        ${last && !answer.error && html`<button type="button" class="quiet" title=${t.againHint} onClick=${() => again(turn)}>${t.again}</button>`}
      </span>
      ${same && html`<p class="note">${t.sameAsBefore}</p>`}
      ${s?.warnings?.map((w) => html`<p class="note">${w}</p>`)}
    </div>`;
}

function Pager({ turn }) {
  const t = text.value;
  const k = turn.shown, n = turn.answers.length;
  return html`
    <span class="pager">
      <button type="button" class="quiet" aria-label=${t.previous} disabled=${k === 0} onClick=${() => show(turn, k - 1)}>‹</button>
      <span>${k + 1}/${n}</span>
      <button type="button" class="quiet" aria-label=${t.next} disabled=${k === n - 1} onClick=${() => show(turn, k + 1)}>›</button>
    </span>`;
}

function Copy({ said }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    setDone(await toClipboard(said));
    setTimeout(() => setDone(false), 1600);
  };
  return html`<button type="button" class="quiet" onClick=${copy}>${done ? text.value.copied : text.value.copy}</button>`;
}

// toClipboard works without the clipboard's interface too, which browsers give to https and to localhost alone.
async function toClipboard(said) {
  try {
    await navigator.clipboard.writeText(said);
    return true;
  } catch {
    const area = Object.assign(document.createElement('textarea'), { value: said });
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}

function Trouble({ error, turn, last }) {
  const t = text.value;
  const full = error.code === 'context_length_exceeded';
  const c = conversation.value;
  const canForget = full && turn.kind === 'chat' && c.turns.length - 1 > c.from;
  return html`
    <div class="trouble" role="alert">
      <p>${t.errors[error.code] ?? t.errors.invalid}</p>
      ${error.detail && html`<p class="detail" lang="en">${error.detail}</p>`}
      ${last && html`
        <p class="acts">
          ${canForget && html`<button type="button" onClick=${() => (forgetAndRetry(turn), refocus())}>${t.forget}</button>`}
          <button type="button" onClick=${() => (retry(turn), refocus())}>${t.retry}</button>
        </p>`}
    </div>`;
}
