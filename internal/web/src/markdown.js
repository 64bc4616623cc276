// Text of a model to HTML that is safe to show: marked makes it, with HTML in it as the text that it is, and DOMPurify takes out everything that acts
// or loads all the same.
import DOMPurify from 'dompurify';
import { Marked } from 'marked';

const escaped = (s) => s.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const marked = new Marked({ gfm: true, breaks: true, renderer: { html: ({ text }) => escaped(text), image: ({ text }) => escaped(text) } });
const tags = ['p', 'br', 'hr', 'em', 'strong', 'del', 'code', 'pre', 'blockquote', 'ul', 'ol', 'li', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'a',
  'table', 'thead', 'tbody', 'tr', 'th', 'td'];

DOMPurify.addHook('afterSanitizeAttributes', (node) => {
  if (node.tagName !== 'A') return;
  node.setAttribute('target', '_blank');
  node.setAttribute('rel', 'noopener noreferrer');
});

// html gives a TrustedHTML where browsers know that type.
export function html(text) {
  return DOMPurify.sanitize(marked.parse(text), {
    ALLOWED_TAGS: tags, ALLOWED_ATTR: ['href', 'start', 'align', 'target', 'rel'], ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
    RETURN_TRUSTED_TYPE: Boolean(window.trustedTypes),
  });
}
