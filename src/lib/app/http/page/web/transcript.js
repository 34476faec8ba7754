// A conversation as it is shown: what was said, what tools were asked and answered, what went wrong.

import { copyText, markdown } from './markdown.js';
import { el, icon, plain, timeOf, visible } from './dom.js';

/** What a tool was asked, in one line and in full. */
function asked(input) {
  if (!input || typeof input !== 'object') return { line: '', full: '' };
  const values = Object.values(input);
  const first = ['command', 'path', 'query', 'url', 'text', 'name'].map((name) => input[name]).find((value) => typeof value === 'string');
  const line = first || (values.length === 1 && typeof values[0] === 'string' ? values[0] : values.length ? JSON.stringify(input) : '');
  const full = values.length === 1 && typeof values[0] === 'string' ? values[0] : JSON.stringify(input, null, 2);
  return { line: visible(line.split('\n')[0].slice(0, 200)), full: visible(full) };
}

/** Returns a step: a tool, what it was asked, and room for what it answers. */
export function step(name, input, id = '') {
  const { line, full } = asked(input);
  const state = el('span', { class: 'step-state' }, 'running');
  const body = el('div', { class: 'step-body' }, full ? el('pre', { tabindex: '0', 'aria-label': 'Call' }, full) : null);
  const node = el('details', { class: 'step', data: { state: 'running', id } }, el('summary', {}, el('span', { class: 'step-name' }, visible(name)), el('code', {}, line), state), body);
  return { node, name, body, state };
}

/** Puts an end to a step. */
export function endStep(one, { text, failed, ms }) {
  one.node.dataset.state = failed ? 'failed' : 'done';
  one.state.textContent = failed ? 'failed' : ms === undefined ? 'done' : duration(ms);
  if (text && !one.result) {
    one.result = el('pre', { tabindex: '0', 'aria-label': 'Result' }, visible(text));
    one.body.append(one.result);
  }
}

export function duration(ms) {
  if (ms < 1000) return `${ms} ms`;
  return ms < 60000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms / 60000)} min`;
}

/** Returns the bubble of a person. */
export function personal(text, files, at, state) {
  const names = files.map((name) => el('span', { class: 'file' }, icon('clip'), visible(name)));
  return el('article', { class: 'message user' }, el('h2', { class: 'sr' }, 'You'), text ? el('div', { class: 'bubble words' }, plain(text)) : null, names.length ? el('div', { class: 'files' }, names) : null, el('div', { class: 'meta' }, state || null, at ? timeOf(at) : null));
}

/** Returns an empty answer. */
export function answer() {
  const steps = el('div', { class: 'steps' });
  const words = el('div', { class: 'words md' });
  const meta = el('div', { class: 'meta' });
  const node = el('article', { class: 'message agent' }, el('h2', { class: 'sr' }, 'Agent'), steps, words, meta);
  return { node, steps, words, meta };
}

/** Returns a line between messages. */
export function note(words, kind = '') {
  return el('p', { class: `note ${kind}`, role: kind === 'trouble' ? 'alert' : undefined }, visible(words));
}

/** Words that grow: what is whole is drawn once, and only the last block again. */
export class Growing {
  constructor(node) {
    this.node = node;
    this.clear();
  }

  clear() {
    this.text = '';
    this.whole = 0;
    this.looked = 0;
    this.fence = '';
    this.node.replaceChildren();
    this.tail = el('div');
    this.node.append(this.tail);
  }

  append(words) {
    this.text += words;
    if (!this.due) this.due = requestAnimationFrame(() => { this.due = 0; this.draw(); });
  }

  draw() {
    const before = this.whole;
    this.look();
    if (this.whole > before) this.tail.before(...markdown(this.text.slice(before, this.whole)));
    const rest = this.text.slice(this.whole);
    if (rest.length < 20000) {
      this.plain = null;
      this.tail.replaceChildren(...markdown(rest));
    } else {
      // A block without an end is not drawn again for each word of it.
      if (!this.plain || this.plainFrom !== this.whole) {
        this.plain = document.createTextNode('');
        this.plainFrom = this.whole;
        this.tail.replaceChildren(el('pre', { class: 'plain' }, this.plain));
      }
      this.plain.appendData(rest.slice(this.plain.length));
    }
    if (this.drawn) this.drawn();
  }

  /** Finds the last empty line outside a block of code; each line is looked at once. */
  look() {
    for (;;) {
      const end = this.text.indexOf('\n', this.looked);
      if (end < 0) return;
      const line = this.text.slice(this.looked, end).trim();
      const mark = /^(`{3,}|~{3,})/.exec(line);
      if (mark && !this.fence) this.fence = mark[1];
      else if (mark && line === mark[1] && mark[1].startsWith(this.fence)) this.fence = '';
      if (line === '' && !this.fence) this.whole = end + 1;
      this.looked = end + 1;
    }
  }
}

const textOf = (blocks) => blocks.filter((block) => block.type === 'text').map((block) => block.text).join('\n\n');

/** Draws the events of a conversation. */
export class Transcript {
  constructor({ undo }) {
    this.undo = undo;
    this.steps = new Map();
    this.current = null;
    this.nodes = [];
  }

  /** Returns the elements of these events. */
  static of(events, actions) {
    const one = new Transcript(actions);
    for (const event of events) one.add(event);
    one.finish();
    return one.nodes;
  }

  add(event) {
    if (event.type === 'message') this.message(event);
    else if (event.type === 'tool_result') this.result(event);
    else if (event.type === 'error') this.put(event.text === 'stopped' ? note('Stopped.') : note(event.text, 'trouble'));
    else if (event.type === 'compaction') this.put(el('details', { class: 'note' }, el('summary', {}, 'Older messages were summarized'), el('div', { class: 'md' }, markdown(event.summary || ''))));
    else if (event.type === 'setting') this.put(note(event.model ? `From here on ${event.model} answers.` : 'From here on the usual model answers.'));
    else if (event.type === 'pin') this.put(note(`Kept in mind: ${event.text}`));
    else if (event.type === 'unpin') this.put(note(`No longer kept in mind: ${event.text}`));
  }

  put(node) {
    this.finish();
    this.nodes.push(node);
  }

  /** The answer of a run is over. */
  finish() {
    const one = this.current;
    this.current = null;
    if (!one) return;
    for (const each of one.calls) {
      if (each.node.dataset.state === 'running') endStep(each, { failed: true, text: '' });
    }
    const actions = [];
    if (one.text) {
      const copy = el('button', { type: 'button', class: 'quiet-button', onclick: () => copyText(copy, one.text) }, 'Copy');
      actions.push(copy);
    }
    if (one.changed) actions.push(el('button', { type: 'button', class: 'quiet-button', onclick: () => this.undo(one.run) }, icon('undo'), 'Undo'));
    if (one.at) actions.push(timeOf(one.at));
    one.meta.append(...actions);
  }

  message(event) {
    if (event.role === 'assistant') return this.said(event);
    const results = event.content.filter((block) => block.type === 'tool_result');
    for (const block of results) this.result(block);
    if (results.length === event.content.length && results.length) return undefined;
    const words = textOf(event.content);
    const files = (event.files || []).map((path) => path.split('/').pop().replace(/^[0-9a-f]{6,}-a\d+-/, ''));
    if (!event.inbox_id && !event.about) return undefined;
    if (event.about) return this.put(el('details', { class: 'note' }, el('summary', {}, `Event: ${visible(event.about.source || event.about.kind || 'the agent itself')}`), el('p', { class: 'words' }, visible(words))));
    return this.put(personal(words, files, event.ts));
  }

  said(event) {
    if (!this.current || this.current.run !== event.run_id) {
      this.finish();
      this.current = { ...answer(), run: event.run_id, text: '', calls: [], changed: false };
      this.nodes.push(this.current.node);
    }
    const one = this.current;
    one.at = event.ts;
    const words = textOf(event.content);
    if (words) {
      one.text += (one.text ? '\n\n' : '') + words;
      const place = one.calls.length ? el('div', { class: 'words md' }) : one.words;
      place.append(...markdown(words));
      if (place !== one.words) one.meta.before(place);
    }
    const calls = event.content.filter((block) => block.type === 'tool_call');
    if (!calls.length) return;
    const steps = el('div', { class: 'steps' });
    for (const call of calls) {
      const each = step(call.name, call.input, call.id);
      this.steps.set(call.id, each);
      one.calls.push(each);
      steps.append(each.node);
    }
    one.meta.before(steps);
  }

  result(event) {
    const each = this.steps.get(event.id);
    if (!each) return;
    endStep(each, { text: event.text, failed: event.is_error, ms: event.duration_ms });
    if (event.receipt && this.current) this.current.changed = true;
  }
}
