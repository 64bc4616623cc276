package web

import (
	"testing"

	"github.com/go-rod/rod/lib/input"

	"tinyloop/internal/servetest"
)

// audit looks for what keeps people from using the page: controls without a name, fields without a label, ids that are there twice, headings that
// leave a level out, missing landmarks, and text whose contrast is below WCAG's AA (4.5, or 3 for large text).
const audit = `() => {
  const found = [];
  const seen = (e) => e.getClientRects().length > 0 && getComputedStyle(e).visibility === 'visible';
  const named = (e) => e.getAttribute('aria-label') || (e.labels && [...e.labels].map((l) => l.textContent).join('')) || e.textContent || e.title;
  for (const e of document.querySelectorAll('button, a[href], input, select, textarea, summary, [role=button]')) {
    if (seen(e) && !(named(e) ?? '').trim()) found.push('no name: ' + e.outerHTML.slice(0, 120));
    const r = e.getBoundingClientRect();
    if (seen(e) && !e.matches('.skip, input[type=radio]') && (r.width < 20 || r.height < 19)) found.push('too small to hit: ' + e.outerHTML.slice(0, 120) + ' ' + r.width + 'x' + r.height);
  }
  const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
  for (const id of ids) if (ids.filter((x) => x === id).length > 1) found.push('twice: #' + id);
  for (const a of ['aria-describedby', 'aria-controls', 'for'])
    for (const e of document.querySelectorAll('[' + a + ']')) if (!document.getElementById(e.getAttribute(a))) found.push(a + ' names nothing: ' + e.getAttribute(a));
  for (const mark of ['main', 'nav', 'aside', '[role=status][aria-live=polite]', 'a.skip[href="#question"]'])
    if (document.querySelectorAll(mark).length !== 1) found.push(document.querySelectorAll(mark).length + ' of ' + mark);
  let level = 0;
  for (const h of document.querySelectorAll('h1, h2, h3, h4')) {
    const n = Number(h.tagName[1]);
    if (n > level + 1) found.push('a level is left out before: ' + h.outerHTML.slice(0, 80));
    level = n;
  }
  if (document.querySelectorAll('h1').length !== 1) found.push(document.querySelectorAll('h1').length + ' h1');
  if (!document.documentElement.lang || !document.title) found.push('no language or title');

  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = (c) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const over = (top, below) => top.slice(0, 3).map((v, i) => (v * top[3]) / 255 + below[i] * (1 - top[3] / 255));
  const behind = (e) => {
    const layers = [];
    for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); layers.push(c); if (c[3] === 255) break; }
    return layers.reverse().reduce((below, top) => over(top, below), rgba(getComputedStyle(document.body).backgroundColor));
  };
  const light = (c) => { const [r, g, b] = c.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let texts = 0;
  for (let n; (n = walk.nextNode()); ) {
    const e = n.parentElement, st = getComputedStyle(e);
    if (!n.data.trim() || !seen(e) || e.closest('.hidden, noscript, :disabled, .skip')) continue;
    const paper = behind(e), ink = over(rgba(e.closest('svg') ? st.fill : st.color), paper);
    const [a, b] = [light(ink), light(paper)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05), px = parseFloat(st.fontSize);
    const need = px >= 24 || (px >= 18.66 && Number(st.fontWeight) >= 700) ? 3 : 4.5;
    texts++;
    if (ratio < need) found.push('contrast ' + ratio.toFixed(2) + ' of "' + n.data.trim().slice(0, 40) + '"');
  }
  if (texts < 10) found.push('only ' + texts + ' texts were looked at');
  return found.join('\n');
}`

func TestAccess(t *testing.T) {
	s := serve(t, servetest.Options{Say: []string{"Some **bold** text, `code`, and [a link](https://example.org)."}})
	for name, l := range map[string]look{"light": {}, "dark": {dark: true}, "phone": {width: 360, height: 760}, "french": {french: true, dark: true}} {
		t.Run(name, func(t *testing.T) {
			p := open(t, s.URL, l)
			check := func(when string) {
				t.Helper()
				if found := p.MustEval(audit).Str(); found != "" {
					t.Errorf("%s:\n%s", when, found)
				}
			}
			check("empty")
			p.say("Hi")
			p.answered()
			check("answered")
			p.MustEval(`() => document.querySelector('summary').click()`)
			check("settings")
			p.MustElement("#max-tokens").MustInput("100000").MustBlur()
			p.say("Hi again")
			p.wait(`() => document.querySelector('.trouble') !== null`)
			check("error")
		})
	}
}

// The audit finds what it is for.
func TestAuditWorks(t *testing.T) {
	s := serve(t, servetest.Options{})
	p := open(t, s.URL, look{})
	p.MustEval(`() => {
	  const put = (tag, more) => document.querySelector('main').append(Object.assign(document.createElement(tag), more));
	  put('button', {});
	  put('p', { id: 'question', className: 'pale', textContent: 'pale words' });
	  put('h4', { textContent: 'deep' });
	  document.querySelector('.pale').style.color = 'rgb(200, 200, 205)';
	}`)
	found := p.MustEval(audit).Str()
	for _, want := range []string{"no name: ", "twice: #question", "a level is left out", "contrast 1."} {
		if !contains(found, want) {
			t.Errorf("%q is missing in:\n%s", want, found)
		}
	}
}

// With the Tab key alone every control can be reached, in the order of reading, and shows that it has the focus.
func TestTabOrder(t *testing.T) {
	s := serve(t, servetest.Options{})
	p := open(t, s.URL, look{})
	p.say("Hi")
	p.answered()
	p.MustEval(`() => document.querySelector('.skip').focus()`)
	var order []string
	for k := range 25 {
		if k > 0 {
			must(t, p.Keyboard.Type(input.Tab))
		}
		at := p.MustEval(`() => { const e = document.activeElement; return e === document.body ? '' : e.id || e.getAttribute('aria-label') || e.innerText || e.value }`).Str()
		if at == "" {
			break
		}
		if !p.MustEval(`() => { const e = document.activeElement, f = (x) => getComputedStyle(x); return f(e).outlineStyle !== 'none' || f(e.parentElement).boxShadow !== 'none' || f(e.nextElementSibling ?? e).outlineStyle !== 'none' }`).Bool() {
			t.Errorf("%s does not show that it has the focus", at)
		}
		order = append(order, at)
	}
	next := 0
	want := []string{"Skip to the question box", "New conversation", "Hi", "Delete Hi", "auto", "Langue : français", "Licences", "Copy", "Again", "question", "loops", "Settings"}
	for _, at := range order {
		if next < len(want) && contains(at, want[next]) {
			next++
		}
	}
	if next != len(want) {
		t.Errorf("%q is not reached in its turn; the order is %q", want[next], order)
	}
}
