// Markdown as elements. What it is given may be anybody's words: no HTML in it is read, no address but http, https and
// mailto becomes a link, and nothing is loaded. Each step looks at each character a bounded number of times.

import { el, plain } from './dom.js';

/** Longer texts are shown as they are. */
const LONGEST = 200000;
const DEEPEST = 6;

/** Returns the elements of a text. */
export function markdown(words) {
  const text = plain(words);
  if (text.length > LONGEST) return [el('pre', { class: 'plain' }, text)];
  return blocks(text.replace(/\r\n?/g, '\n').split('\n'), 0);
}

function blocks(lines, depth) {
  const found = [];
  let at = 0;
  while (at < lines.length) {
    const rest = depth < DEEPEST && (fence(lines, at) || quote(lines, at, depth) || list(lines, at, depth) || table(lines, at));
    const block = rest || rule(lines, at) || heading(lines, at) || blank(lines, at) || paragraph(lines, at, depth);
    if (block.node) found.push(block.node);
    at = block.next;
  }
  return found;
}

const blank = (lines, at) => (lines[at].trim() === '' ? { next: at + 1 } : null);

function fence(lines, at) {
  const open = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/.exec(lines[at]);
  if (!open) return null;
  let end = at + 1;
  while (end < lines.length && !isEnd(lines[end], open[1])) end += 1;
  const code = lines.slice(at + 1, end).join('\n');
  return { node: codeBlock(code, open[2].trim()), next: end + 1 };
}

function isEnd(line, mark) {
  const words = line.trim();
  return words.length >= mark.length && words === mark[0].repeat(words.length);
}

/** Returns a block of code with a button that copies it. */
function codeBlock(code, language) {
  const copy = el('button', { type: 'button', class: 'copy', onclick: () => copyText(copy, code) }, 'Copy');
  return el('div', { class: 'code' }, el('div', { class: 'code-head' }, el('span', {}, language || 'text'), copy), el('pre', { tabindex: '0' }, el('code', {}, code)));
}

/** Puts a text into the clipboard, also where the browser has none for pages over plain HTTP. */
export async function copyText(button, text) {
  try {
    if (navigator.clipboard) await navigator.clipboard.writeText(text);
    else {
      const field = el('textarea', { class: 'hidden-field' }, text);
      document.body.append(field);
      field.select();
      document.execCommand('copy');
      field.remove();
    }
    button.textContent = 'Copied';
  } catch {
    button.textContent = 'Not copied';
  }
  setTimeout(() => { button.textContent = 'Copy'; }, 1500);
}

function rule(lines, at) {
  return /^ {0,3}([-*_])( *\1){2,} *$/.test(lines[at]) ? { node: el('hr'), next: at + 1 } : null;
}

function heading(lines, at) {
  const found = /^ {0,3}(#{1,6}) +(.*)$/.exec(lines[at]);
  // All stand below the heading of their message, whatever level their writer took.
  return found ? { node: el('h3', { class: `level-${found[1].length}` }, inline(found[2].replace(/ #+$/, ''))), next: at + 1 } : null;
}

function quote(lines, at, depth) {
  let end = at;
  while (end < lines.length && /^ {0,3}>/.test(lines[end])) end += 1;
  if (end === at) return null;
  const inner = lines.slice(at, end).map((line) => line.replace(/^ {0,3}> ?/, ''));
  return { node: el('blockquote', {}, blocks(inner, depth + 1)), next: end };
}

const ITEM = /^( {0,8})([-*+]|\d{1,9}[.)]) +(.*)$/;

function list(lines, at, depth) {
  const first = ITEM.exec(lines[at]);
  if (!first || /^ {0,3}([-*_])( *\1){2,} *$/.test(lines[at])) return null;
  const ordered = /\d/.test(first[2]);
  const indent = first[1].length;
  const items = [];
  let next = at;
  while (next < lines.length) {
    const item = ITEM.exec(lines[next]);
    if (!item || item[1].length > indent + 1 || item[1].length < indent || /\d/.test(item[2]) !== ordered) break;
    const width = item[0].length - item[3].length;
    const inner = [item[3]];
    next += 1;
    while (next < lines.length && belongs(lines, next, indent)) {
      inner.push(lines[next].replace(new RegExp(`^ {0,${width}}`), ''));
      next += 1;
    }
    items.push(itemOf(inner, depth));
  }
  const start = ordered && parseInt(first[2], 10) !== 1 ? parseInt(first[2], 10) : undefined;
  return { node: el(ordered ? 'ol' : 'ul', { start }, items), next };
}

function belongs(lines, at, indent) {
  const line = lines[at];
  const deep = line.search(/\S/);
  if (deep < 0) return at + 1 < lines.length && lines[at + 1].search(/\S/) > indent;
  return deep > indent || !(ITEM.test(line) || /^ {0,3}(#{1,6} |```|~~~|>)/.test(line) || lines[at - 1].trim() === '');
}

function itemOf(lines, depth) {
  const box = /^\[([ xX])\] /.exec(lines[0]);
  if (box) lines[0] = (box[1] === ' ' ? '☐ ' : '☑ ') + lines[0].slice(4);
  const inner = blocks(lines, depth + 1);
  // Short items stand without paragraphs.
  return el('li', {}, inner.flatMap((node) => (node.tagName === 'P' && inner.length < 3 ? [...node.childNodes] : [node])));
}

const cells = (line) => line.trim().replace(/^\||\|$/g, '').split(/(?<!\\)\|/).map((cell) => cell.trim().replace(/\\\|/g, '|'));

function table(lines, at) {
  if (!lines[at].includes('|') || at + 1 >= lines.length || !/^ *\|?[ :|-]+\|?[ :|-]*$/.test(lines[at + 1]) || !lines[at + 1].includes('-')) return null;
  const head = cells(lines[at]);
  if (cells(lines[at + 1]).length !== head.length) return null;
  let end = at + 2;
  while (end < lines.length && lines[end].includes('|') && lines[end].trim() !== '') end += 1;
  const row = (line, tag) => el('tr', {}, cells(line).slice(0, head.length).map((cell) => el(tag, tag === 'th' ? { scope: 'col' } : {}, inline(cell))));
  const body = lines.slice(at + 2, end).map((line) => row(line, 'td'));
  return { node: el('div', { class: 'scroll', tabindex: '0', role: 'group', 'aria-label': 'Table' }, el('table', {}, el('thead', {}, row(lines[at], 'th')), el('tbody', {}, body))), next: end };
}

const STARTS = /^ {0,3}(#{1,6} |`{3}|~{3}|>)/;

function paragraph(lines, at, depth) {
  let end = at + 1;
  const stops = (line) => line.trim() === '' || (depth < DEEPEST && (STARTS.test(line) || ITEM.test(line)));
  while (end < lines.length && !stops(lines[end])) end += 1;
  return { node: el('p', {}, inline(lines.slice(at, end).join('\n'))), next: end };
}

// One pass: code, links, addresses, strong, emphasis, struck. What does not end is text.
const MARKS = /(`{1,8})([^`][^]{0,2000}?)\1(?!`)|\[([^[\]\n]{1,500})\]\(([^()\s]{1,2000})\)|(https?:\/\/[^\s<>"'`]{1,2000})|\*\*(?=\S)([^*\n]{1,1000}?\S|\S)\*\*|__(?=\S)([^_\n]{1,1000}?\S|\S)__|\*(?=[^\s*])([^*\n]{1,1000})\*|(?<![\p{L}\p{N}_])_(?=[^\s_])([^_\n]{1,1000})_(?![\p{L}\p{N}_])|~~([^~\n]{1,1000})~~/gu;

function inline(text, depth = 0) {
  const found = [];
  let done = 0;
  for (const match of text.matchAll(MARKS)) {
    if (match.index > done) found.push(...broken(text.slice(done, match.index)));
    found.push(...span(match, depth));
    done = match.index + match[0].length;
  }
  if (done < text.length) found.push(...broken(text.slice(done)));
  return found;
}

function span(match, depth) {
  const [whole, , code, words, to, address, strong, strong2, soft, soft2, struck] = match;
  const inner = (text) => (depth < 3 ? inline(text, depth + 1) : [text]);
  if (code !== undefined) return [el('code', {}, code)];
  if (to !== undefined) return [link(to, inner(words)) || whole];
  if (address !== undefined) {
    const end = /[.,;:!?)\]]+$/.exec(address);
    const plain = end ? address.slice(0, -end[0].length) : address;
    return [link(plain, [plain]) || plain, end ? end[0] : ''];
  }
  if (strong || strong2) return [el('strong', {}, inner(strong || strong2))];
  if (struck) return [el('s', {}, inner(struck))];
  return [el('em', {}, inner(soft || soft2))];
}

/** Returns a link that says nothing of us; null for an address of another kind. */
function link(to, words) {
  let url;
  try {
    url = new URL(to);
  } catch {
    return null;
  }
  if (!['http:', 'https:', 'mailto:'].includes(url.protocol)) return null;
  return el('a', { href: url.href, title: url.href, target: '_blank', rel: 'noopener noreferrer' }, words);
}

/** A line break of a chat is one. */
function broken(text) {
  return text.split('\n').flatMap((line, at) => (at ? [el('br'), line] : [line]));
}
