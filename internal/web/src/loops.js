// The loops control, and the small drawing of the loops beside an answer.
import { row } from './pen.js';
import { loops, model, setLoops } from './talk.js';
import { text } from './text.js';
import { cls, html } from './view.js';

const widest = 264, pad = 8, base = 40, tallest = 26, grip = 20; // pixels

export function LoopsControl() {
  const m = model.value;
  if (!m) return null;
  const t = text.value;
  const { from, to, most, standard } = m.loops;
  if (most <= 1) return html`<p class="loops none">${t.noLoop}</p>`;
  const n = Math.min(loops.value, most);
  const step = Math.min((widest - 2 * pad) / most, 31);
  const width = most * step + 2 * pad;
  const high = Math.min(tallest, 2 * step); // many loops are small ones
  const x = (k) => pad + k * step; // where loop k ends
  const inside = n >= from && n <= to;
  return html`
    <div class="loops">
      <label for="loops">${t.loops}</label>
      <output for="loops">${n}</output>
      <div class="track" style=${{ width: `${width}px` }}>
        <svg viewBox=${`0 0 ${width} 62`} width=${width} height="62" aria-hidden="true">
          <path class=${cls('guide', step > 12 && 'dotted')} d=${row(most, x(0), base, step, high)} />
          <path class="ink" d=${row(n, x(0), base, step, high)} />
          <path class="line" d=${`M${x(0)} ${base + 7}H${x(most)}`} />
          <path class="band" d=${`M${x(from - 1) + 1} ${base + 7}H${x(Math.min(to, most))}`} />
          <text x=${x(from - 1) + 1} y=${base + 20}>${t.trained(from, to)}</text>
        </svg>
        <input id="loops" type="range" min="1" max=${most} step="1" value=${n} aria-valuetext=${`${t.loopsValue(n)}, ${inside ? t.inRange : t.outRange}`}
          style=${{ left: `${x(1) - grip / 2}px`, width: `${x(most) - x(1) + grip}px` }} onInput=${(e) => setLoops(Number(e.target.value))} />
      </div>
      ${!inside && html`<span class="outside">${t.outRange}</span>`}
      ${n !== standard && html`<button type="button" class="quiet small" onClick=${() => setLoops(standard)}>${t.standard}: ${standard}</button>`}
    </div>`;
}

// Scribble draws n loops, a dozen at the most, over their number.
export function Scribble({ n }) {
  const drawn = Math.min(n, 12);
  const step = 6, w = drawn * step + 8;
  return html`<svg class="scribble" viewBox=${`0 0 ${w} 16`} width=${w} height="16" aria-hidden="true"><path d=${row(drawn, 3, 13, step, 10)} /></svg>`;
}
