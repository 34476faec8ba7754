// Elements, made without a word of anybody becoming markup.

/** Returns an element; `on…` are listeners, `data` its data set, everything else attributes. */
export function el(tag, props, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (name === 'data') Object.assign(node.dataset, value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const SVG = 'http://www.w3.org/2000/svg';

/** Returns an SVG element. */
export function svg(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const PATHS = {
  menu: 'M4 6h16M4 12h16M4 18h16',
  plus: 'M12 5v14M5 12h14',
  send: 'M12 19V5M6 11l6-6 6 6',
  stop: 'M7 7h10v10H7z',
  clip: 'M20 11l-8.5 8.5a5 5 0 0 1-7-7L13 4a3.4 3.4 0 0 1 4.8 4.8L9.4 17.2a1.7 1.7 0 0 1-2.4-2.4l7.6-7.6',
  mic: 'M12 15a3 3 0 0 0 3-3V6a3 3 0 0 0-6 0v6a3 3 0 0 0 3 3zM6 12a6 6 0 0 0 12 0M12 18v3',
  close: 'M6 6l12 12M18 6L6 18',
  copy: 'M9 9h10v11H9zM5 15V4h10',
  undo: 'M9 14l-5-5 5-5M4 9h10a6 6 0 0 1 0 12h-3',
};

/** Returns a picture that says nothing to a screen reader. */
export function icon(name) {
  return svg('svg', { viewBox: '0 0 24 24', class: 'icon', 'aria-hidden': 'true' }, svg('path', { d: PATHS[name] }));
}

/** Returns a button with a picture alone; `label` is what it is called. */
export function iconButton(name, label, onclick, props) {
  return el('button', { type: 'button', class: 'icon-button', 'aria-label': label, title: label, onclick, ...props }, icon(name));
}

/** Says something to a screen reader, and to nobody else. */
export function announce(words) {
  const place = document.getElementById('announcer');
  place.textContent = '';
  place.append(words);
}

/** Returns what invisible and turning characters are, so that they do not hide: as the server's own escapes. */
export function visible(text) {
  return String(text).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e007f}\u{e0100}-\u{e01ef}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

/** The same for words that are read and not judged: what turns the direction of all that follows, and nothing that letters and emoji are made of. */
export function plain(text) {
  return String(text).replace(/[\u202a-\u202e\u2066-\u2069]/g, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

const today = () => new Date().toDateString();

/** Returns a time for people: the clock of today, else the date. */
export function when(iso) {
  const at = new Date(iso);
  if (!iso || Number.isNaN(at.getTime())) return '';
  if (at.toDateString() === today()) return at.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
  return at.toLocaleDateString([], { day: 'numeric', month: 'short', year: at.getFullYear() === new Date().getFullYear() ? undefined : 'numeric' });
}

/** Returns a time element with the whole date as its title. */
export function timeOf(iso) {
  return el('time', { datetime: iso, title: new Date(iso).toLocaleString() }, when(iso));
}
