// Text of a model to HTML that is safe to show: marked makes it, with HTML in it as the text that it is, and DOMPurify takes out everything that acts
// or loads all the same.
import DOMPurify from 'dompurify';
import { Marked, Renderer } from 'marked';

const escaped = (s) => s.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const tags = ['p', 'br', 'hr', 'em', 'strong', 'del', 'code', 'pre', 'blockquote', 'ul', 'ol', 'li', 'h4', 'h5', 'h6', 'a', 'figure', 'table', 'thead', 'tbody', 'tr', 'th', 'td'];

const marked = new Marked({
  gfm: true, breaks: true,
  renderer: {
    html: ({ text }) => escaped(text),
    image: ({ text }) => escaped(text),
    checkbox: ({ checked }) => (checked ? '☑ ' : '☐ '),
    // Headings of levels 1 to 3 are the page's own: those of an answer stand below them.
    heading({ tokens, depth }) {
      const level = Math.min(depth + 3, 6);
      return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>\n`;
    },
    // A wide table scrolls by itself.
    table(token) {
      return `<figure>${Renderer.prototype.table.call(this, token)}</figure>`;
    },
  },
});

DOMPurify.addHook('afterSanitizeAttributes', (node) => {
  if (node.tagName !== 'A') return;
  node.setAttribute('target', '_blank');
  node.setAttribute('rel', 'noopener noreferrer');
});

// A parser of Markdown takes time that grows with the square of what is open at once. No text that means something comes near these bounds; a model
// that repeats itself may.
const most = { length: 200_000, items: 3000, marks: 600 }; // marks of one paragraph
const mark = /[*_~`[\]<@]/g;
const item = /^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]/;
const nested = /^(?:[ \t]*(?:>|[-*+](?=[ \t])|\d{1,9}[.)](?=[ \t]))){10}|[ \t]{1000}/; // quotes and lists in each other on one line; endless blanks
const fence = /^ {0,3}(`{3,}|~{3,})/;

// plain says that a text is to be shown as it is. Marks within code mean nothing, but where HTML begins only the parser knows what is code.
function plain(text) {
  if (text.length > most.length) return true;
  let code = '', tags = false, marks = 0, items = 0;
  for (const line of text.split('\n')) {
    const end = tags ? '' : (fence.exec(line)?.[1] ?? '');
    if (code ? end.startsWith(code) : end && !line.slice(line.indexOf(end) + end.length).includes('`')) {
      code = code ? '' : end;
      continue;
    }
    if (code) continue;
    tags ||= /^ {0,3}</.test(line);
    if (!line.trim()) marks = 0;
    marks += line.match(mark)?.length ?? 0;
    items += item.test(line) ? 1 : 0;
    if (marks > most.marks || items > most.items || nested.test(line)) return true;
  }
  return false;
}

function made(text) {
  if (!plain(text)) {
    try {
      return marked.parse(text);
    } catch {
      // what the parser cannot read is shown as it is
    }
  }
  return `<p>${escaped(text).replaceAll('\n', '<br>')}</p>`;
}

// html gives a TrustedHTML where browsers know that type.
export function html(text) {
  return DOMPurify.sanitize(made(text), {
    ALLOWED_TAGS: tags, ALLOWED_ATTR: ['href', 'start', 'align', 'target', 'rel'], ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
    RETURN_TRUSTED_TYPE: Boolean(window.trustedTypes),
  });
}
