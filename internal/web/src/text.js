// The words of the page in both languages. A key is a place, not a text.
import { computed } from '@preact/signals';
import { settings } from './store.js';

const words = {
  en: {
    newChat: 'New conversation', conversations: 'Conversations', menu: 'Menu', close: 'Close', skip: 'Skip to the question box',
    untitled: 'Untitled', remove: 'Delete', removeAll: 'Delete all', sure: 'Really?', language: 'Langue : français',
    theme: 'Theme', themes: { auto: 'Auto', light: 'Light', dark: 'Dark' },
    hello: 'Ask it something.',
    intro: (m) => `A model of ${m.size} parameters, computed on this machine alone.` +
      (m.loops > 1 ? ` It goes over each word several times before it answers: give it more loops, and it thinks longer.` : ''),
    baseModel: 'This model has not learnt to converse: it continues texts. Begin one, and it writes on.',
    examplesAsk: 'Ask', examplesContinue: 'Let it continue', box: 'Your question', boxHint: 'Ask a question', prompt: 'Your text', promptHint: 'Begin a text',
    send: 'Send', stop: 'Stop', keys: 'Enter sends · Shift+Enter makes a new line · Escape stops',
    loops: 'Loops', loopsValue: (n) => (n === 1 ? '1 loop' : `${n} loops`), trained: (a, b) => (a === b ? `trained at ${a}` : `trained ${a}–${b}`),
    inRange: 'within the trained range', outRange: 'outside the trained range', noLoop: 'no loops: this model reads once', standard: 'default',
    settings: 'Settings', temperature: 'Temperature', temperatureHint: '0 always takes the likeliest word', maxTokens: 'Most tokens', noLimit: 'no limit',
    seed: 'Seed', random: 'random', system: 'Instructions to the model', systemHint: 'none', kind: 'The model', kinds: { chat: 'answers', complete: 'continues' },
    model: 'Model', you: 'You', answer: 'Answer', writing: 'Writing…', waiting: 'Reading your question…', answered: (s) => `Answer: ${s}`, empty: '(an empty answer)',
    first: 'first token', speed: 'tokens/s', tokens: (n) => (n === 1 ? '1 token' : `${n} tokens`), seedUsed: (n) => `seed ${n}`,
    copy: 'Copy', copied: 'Copied', again: 'Again', againHint: 'Answer again with the loops and settings of now', previous: 'Earlier answer', next: 'Later answer',
    ends: { stopped: 'stopped', maxPredictedTokensReached: 'cut at the token limit', contextLengthReached: 'cut: the window is full', timeout: 'cut: out of time' },
    sameAsBefore: 'Same answer as before: at temperature 0 only the loops can change it.',
    forgotten: 'The model no longer sees what stands above.', retry: 'Try again', forget: 'Leave out the oldest exchanges and try again',
    errors: {
      offline: 'The server cannot be reached. Is it still running?', broken: 'The connection broke before the answer was complete.',
      no_model: 'The server has no model loaded. Start it with --model FILE.', model_not_found: 'The server no longer has that model. Another attempt asks the one it has now.',
      context_length_exceeded: 'The window is full: the conversation and its answer do not fit into what the model can read at once.',
      queue_full: 'The server is busy. Try again in a moment.', unavailable: 'The server is shutting down, or does not answer any more.', timeout: 'The answer took too long and was cut off.',
      invalid: 'The server did not accept the request.', internal: 'Something went wrong inside the server. Its log says more.',
    },
    pageBroke: 'Something went wrong on this page.', reload: 'Load the page again', forgetAll: 'Delete what the browser keeps of it, and load it again',
    noStorage: 'The browser keeps nothing: this conversation ends with the page.', licences: 'Licences', api: 'API: any OpenAI client, at',
  },
  fr: {
    newChat: 'Nouvelle conversation', conversations: 'Conversations', menu: 'Menu', close: 'Fermer', skip: 'Aller à la question',
    untitled: 'Sans titre', remove: 'Supprimer', removeAll: 'Tout supprimer', sure: 'Vraiment\u202f?', language: 'Language: English',
    theme: 'Thème', themes: { auto: 'Auto', light: 'Clair', dark: 'Sombre' },
    hello: 'Posez-lui une question.',
    intro: (m) => `Un modèle de ${m.size} paramètres, calculé sur cette seule machine.` +
      (m.loops > 1 ? ` Il repasse plusieurs fois sur chaque mot avant de répondre\u00a0: donnez-lui plus de boucles, il réfléchit plus longtemps.` : ''),
    baseModel: 'Ce modèle n’a pas appris à converser\u00a0: il continue des textes. Commencez-en un, il écrira la suite.',
    examplesAsk: 'Demander', examplesContinue: 'Laisser continuer', box: 'Votre question', boxHint: 'Posez une question', prompt: 'Votre texte', promptHint: 'Commencez un texte',
    send: 'Envoyer', stop: 'Arrêter', keys: 'Entrée envoie · Maj+Entrée va à la ligne · Échap arrête',
    loops: 'Boucles', loopsValue: (n) => (n === 1 ? '1 boucle' : `${n} boucles`), trained: (a, b) => (a === b ? `entraîné à ${a}` : `entraîné ${a}–${b}`),
    inRange: 'dans l’intervalle d’entraînement', outRange: 'hors de l’intervalle d’entraînement', noLoop: 'sans boucle\u00a0: ce modèle lit une seule fois', standard: 'par défaut',
    settings: 'Réglages', temperature: 'Température', temperatureHint: '0 prend toujours le mot le plus probable', maxTokens: 'Tokens au plus', noLimit: 'sans limite',
    seed: 'Graine', random: 'au hasard', system: 'Consignes au modèle', systemHint: 'aucune', kind: 'Le modèle', kinds: { chat: 'répond', complete: 'continue' },
    model: 'Modèle', you: 'Vous', answer: 'Réponse', writing: 'Écriture…', waiting: 'Lecture de la question…', answered: (s) => `Réponse\u00a0: ${s}`, empty: '(une réponse vide)',
    first: 'premier token', speed: 'tokens/s', tokens: (n) => (n <= 1 ? `${n} token` : `${n} tokens`), seedUsed: (n) => `graine ${n}`,
    copy: 'Copier', copied: 'Copié', again: 'Refaire', againHint: 'Répondre encore, avec les boucles et réglages actuels', previous: 'Réponse précédente', next: 'Réponse suivante',
    ends: { stopped: 'arrêtée', maxPredictedTokensReached: 'coupée à la limite de tokens', contextLengthReached: 'coupée\u00a0: la fenêtre est pleine', timeout: 'coupée\u00a0: délai dépassé' },
    sameAsBefore: 'Même réponse que la précédente\u00a0: à température 0, seules les boucles peuvent la changer.',
    forgotten: 'Le modèle ne voit plus ce qui est au-dessus.', retry: 'Réessayer', forget: 'Oublier les échanges les plus anciens et réessayer',
    errors: {
      offline: 'Le serveur est injoignable. Tourne-t-il encore\u202f?', broken: 'La connexion s’est rompue avant la fin de la réponse.',
      no_model: 'Le serveur n’a chargé aucun modèle. Lancez-le avec --model FICHIER.', model_not_found: 'Le serveur n’a plus ce modèle. Un nouvel essai s’adressera à celui qu’il a maintenant.',
      context_length_exceeded: 'La fenêtre est pleine\u00a0: la conversation et sa réponse dépassent ce que le modèle peut lire d’un coup.',
      queue_full: 'Le serveur est occupé. Réessayez dans un instant.', unavailable: 'Le serveur s’arrête, ou ne répond plus.', timeout: 'La réponse a pris trop de temps et a été coupée.',
      invalid: 'Le serveur n’a pas accepté la demande.', internal: 'Une erreur s’est produite dans le serveur. Son journal en dit plus.',
    },
    pageBroke: 'Une erreur s’est produite dans cette page.', reload: 'Recharger la page', forgetAll: 'Supprimer ce que le navigateur en garde, et recharger',
    noStorage: 'Le navigateur ne garde rien\u00a0: cette conversation finira avec la page.', licences: 'Licences', api: 'API\u00a0: tout client OpenAI, à l’adresse',
  },
};

const preferred = () => ((navigator.languages?.[0] ?? navigator.language ?? 'en').toLowerCase().startsWith('fr') ? 'fr' : 'en');

export const language = computed(() => settings.value.language ?? preferred());
export const text = computed(() => words[language.value]);

// number writes a count or rate as the language does.
export function number(x, most = 0, least = most) {
  return x.toLocaleString(language.value, { maximumFractionDigits: most, minimumFractionDigits: least });
}

// size shortens a count of parameters: 260 k, 1.2 M.
export function size(n) {
  for (const [unit, name] of [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']]) {
    if (n >= unit) return `${number(n / unit, n < 10 * unit ? 1 : 0, 0)}\u202f${name}`;
  }
  return number(n);
}

// duration writes milliseconds: 1.9 ms, 240 ms, 2.4 s.
export function duration(ms) {
  if (ms >= 1000) return `${number(ms / 1000, 1)}\u202fs`;
  return `${number(ms, ms < 10 ? 1 : 0)}\u202fms`;
}
