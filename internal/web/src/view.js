// What all parts of the page use to be drawn.
import { h } from 'preact';
import htm from 'htm';

export const html = htm.bind(h);

// cls joins the class names that apply.
export const cls = (...names) => names.filter(Boolean).join(' ');
