// Conversations: their list, the one that is open, and the answers that are being written. The transcript of the server
// is the record; what is drawn while an answer comes is replaced by it.

import * as api from './api.js';
import { announce, el, plain, timeOf, visible } from './dom.js';
import { Growing, Transcript, answer, duration, endStep, note, personal, step } from './transcript.js';

const PAGE = 60;
const $ = (id) => document.getElementById(id);

/** Sessions as the server lists them, the newest first. */
let sessions = [];
/** Runs of the daemon that go on now. */
let lanes = [];
/** Messages of this page that are not answered yet, by conversation. */
const sending = new Map();
/** The conversation that is open: `key`, `id` of its session, `first` event that is shown. */
let open = null;
let listeners = [];

export const current = () => open;
/** Returns the run of the open conversation. What ended a moment ago may still be listed. */
const laneHere = () => open && lanes.find((lane) => lane.session === open.key && Date.now() - (open.settledAt || 0) > 2500);
export const busy = () => Boolean((open && (sending.get(open.key) || []).length) || laneHere());
/** Returns true while a message is not on the server. */
export const unsent = () => [...sending.values()].flat().some((one) => !one.isTaken);
export const onChange = (call) => { listeners.push(call); };
const changed = () => listeners.forEach((call) => call());

/** Returns what a conversation is called. */
function titleOf(session) {
  return plain(session.title || session.contact || session.key);
}

/** Returns the way a conversation came in by. */
function wayOf(key) {
  const parts = key.split(':');
  if (parts[0] === 'agent') return parts[2] === 'person' ? 'person' : parts[2];
  return { http: key.startsWith('http:web-') ? '' : 'api', cli: 'shell' }[parts[0]] ?? parts[0];
}

/** Returns the key of a new conversation. */
export function newConversation() {
  return `http:web-${api.newKey().slice(0, 12)}`;
}

/** Asks what there is, and shows what is new in the open conversation. */
export async function refresh() {
  const [listed, monitor] = await Promise.all([api.get('/api/v1/sessions?titles=true'), api.get('/api/v1/monitor')]);
  sessions = listed.sessions;
  lanes = monitor.lanes || [];
  drawList();
  await follow();
  changed();
}

async function follow() {
  const one = open && sessions.find((session) => session.key === open.key);
  if (!one) return;
  $('title').textContent = titleOf(one);
  if ((sending.get(open.key) || []).length) return;
  const stamp = `${one.session_id} ${one.updated_at} ${one.message_count}`;
  if (stamp === open.stamp) return showLane();
  const before = open;
  await load();
  if (open === before) open.stamp = stamp;
  showLane();
}

/** Says what another door's message makes the agent do here. */
function showLane() {
  const lane = laneHere();
  const there = $('lines').querySelector('.elsewhere');
  if (there) there.remove();
  if (!lane || (sending.get(open.key) || []).length) return;
  const tools = (lane.tools_in_flight || []).map(visible).join(', ');
  const words = { tools: `running ${tools}`, asking: 'waiting for your approval', retry_wait: 'the model did not answer, it is asked again', compacting: 'summing up' }[lane.state] || 'thinking';
  $('lines').append(el('p', { class: 'note elsewhere working' }, words));
}

/** Draws the list of conversations. */
export function drawList() {
  const wanted = $('filter').value.trim().toLowerCase();
  const shown = sessions.filter((session) => `${session.title || ''} ${session.contact} ${session.key}`.toLowerCase().includes(wanted)).slice(0, 200);
  const running = new Set(lanes.map((lane) => lane.session));
  const focused = document.activeElement && document.activeElement.closest('#conversations a') ? document.activeElement.getAttribute('href') : null;
  $('conversations').replaceChildren(...shown.map((session) => {
    const way = wayOf(session.key);
    const isOpen = open && open.key === session.key;
    return el('li', {}, el('a', { href: `#/c/${encodeURIComponent(session.key)}`, 'aria-current': isOpen ? 'page' : undefined },
      el('span', { class: 'conversation-title' }, titleOf(session)),
      el('span', { class: 'meta' }, running.has(session.key) ? el('span', { class: 'dot', role: 'img', 'aria-label': 'running' }) : null, way ? el('span', { class: 'way' }, visible(way)) : null, timeOf(session.updated_at))));
  }));
  if (!shown.length) $('conversations').append(el('li', { class: 'note' }, sessions.length ? 'None matches.' : 'No conversation yet.'));
  if (focused) {
    const again = [...$('conversations').querySelectorAll('a')].find((link) => link.getAttribute('href') === focused);
    if (again) again.focus({ preventScroll: true });
  }
}

/** Opens a conversation; `at` is an event that is to be seen. */
export async function show(key, at) {
  open = { key, id: null, first: null, stamp: null };
  $('lines').replaceChildren();
  const mine = open;
  const one = sessions.find((session) => session.key === key);
  $('title').textContent = one ? titleOf(one) : key.startsWith('http:web-') ? 'New chat' : key;
  drawList();
  changed();
  try {
    await load(at);
  } catch (error) {
    if (open === mine) $('lines').replaceChildren(note(error.message, 'trouble'));
  }
  if (open !== mine) return;
  for (const one of sending.get(key) || []) $('lines').append(...one.nodes);
  showLane();
  toEnd(true);
}

/** Leaves the conversation. */
export function leave() {
  open = null;
  drawList();
}

const pathOf = (target, last, before) => `/api/v1/sessions/${encodeURIComponent(target)}/history?last=${last}${before ? `&before=${before}` : ''}`;

async function load() {
  const mine = open;
  const count = Math.min(500, Math.max(PAGE, mine.count || 0));
  const history = await api.get(pathOf(mine.key, count));
  if (open !== mine) return;
  const atEnd = isAtEnd();
  const { events } = history;
  mine.id = history.session_id;
  mine.count = events.length;
  mine.first = events.length ? events[0].seq : null;
  // What is read, marked or unfolded is not drawn again without need.
  const shown = [mine.id, mine.first, events.length && events[events.length - 1].seq].join(' ');
  if (mine.shown === shown) return;
  mine.shown = shown;
  const unfolded = new Set([...$('lines').querySelectorAll('.step[open]')].map((node) => node.dataset.id));
  const nodes = Transcript.of(events, { undo });
  $('lines').replaceChildren(...(history.more ? [older()] : []), ...nodes);
  for (const node of $('lines').querySelectorAll('.step')) node.open = unfolded.has(node.dataset.id);
  if (!nodes.length) $('lines').append(welcome());
  if (atEnd) toEnd(true);
}

function welcome() {
  return el('div', { class: 'welcome' }, el('p', {}, 'Write a message to begin.'), el('p', { class: 'quiet' }, 'Drop or paste files, or type / for commands. Enter sends, Shift+Enter begins a new line, Escape stops.'));
}

function older() {
  const button = el('button', { type: 'button', class: 'older', onclick: async () => {
    const mine = open;
    button.disabled = true;
    const height = $('log').scrollHeight;
    try {
      const history = await api.get(pathOf(mine.key, PAGE, mine.first));
      if (open !== mine) return;
      mine.count += history.events.length;
      mine.first = history.events.length ? history.events[0].seq : mine.first;
      button.replaceWith(...(history.more ? [older()] : []), ...Transcript.of(history.events, { undo }));
      $('log').scrollTop += $('log').scrollHeight - height;
    } catch (error) {
      button.disabled = false;
      announce(error.message);
    }
  } }, 'Show older messages');
  return button;
}

/** Takes back what a run changed in files. */
function undo(run) {
  send(`/undo ${run}`, []);
}

const isAtEnd = () => $('log').scrollHeight - $('log').scrollTop - $('log').clientHeight < 120;

/** Shows the end, when it was in sight before. */
function toEnd(force) {
  if (force || isAtEnd()) $('log').scrollTop = $('log').scrollHeight;
}

/** Stops what runs in the open conversation. */
export async function stop() {
  const mine = open;
  if (!mine) return;
  for (const one of sending.get(mine.key) || []) one.stopped = true;
  const said = await api.post('/api/v1/stop', { session: mine.key });
  announce(said.reply || 'Stopping.');
}

/** Sends a message in the open conversation. `files` are `{filename, content_type, data}`. */
export async function send(text, files, taken = () => {}) {
  const mine = open;
  const isCommand = /^\/[a-z]+(\s|$)/i.test(text) && !files.length;
  const state = el('span', { class: 'state' }, 'sending');
  const welcomed = $('lines').querySelector('.welcome');
  if (welcomed) welcomed.remove();
  const bubble = personal(text, files.map((file) => file.filename), null, state);
  const reply = answer();
  const working = el('p', { class: 'note working' }, 'on its way');
  const one = { nodes: [bubble, reply.node, working], reply, state, working, steps: [], calls: new Set(), growing: new Growing(reply.words), key: mine.key, taken };
  one.growing.drawn = () => { if (open && open.key === mine.key) toEnd(); };
  const queue = sending.get(mine.key) || [];
  sending.set(mine.key, [...queue, one]);
  $('lines').append(...one.nodes);
  toEnd(true);
  changed();
  const body = { message: text, session: mine.key, sender: 'web', steps: true };
  if (files.length) body.attachments = files;
  const ended = await untilAnswered(one, body);
  sending.set(mine.key, (sending.get(mine.key) || []).filter((other) => other !== one));
  working.remove();
  await settle(mine, one, ended, isCommand);
  changed();
  return ended;
}

/** Sends the same under the same key until there is an answer: nothing is done twice. */
async function untilAnswered(one, body) {
  const key = api.newKey();
  for (let tries = 0; ; tries += 1) {
    let ended = null;
    try {
      one.growing.clear();
      one.steps = [];
      one.reply.steps.replaceChildren();
      await api.stream(body, key, (name, data) => { ended = take(one, name, data) || ended; });
      if (ended && !(ended.error && ended.error.code === 'closing')) return ended;
    } catch (error) {
      const again = !(error instanceof api.Refused) || [408, 429, 502, 503, 504].includes(error.status);
      if (!again) return { refused: error };
    }
    if (one.stopped) return { error: { code: 'stopped', message: 'Stopped.' } };
    one.state.textContent = 'waiting for the connection';
    one.working.textContent = 'The agent cannot be reached. The message is sent again until it can; nothing is done twice.';
    await api.pause(Math.min(10, 1 + tries));
  }
}

/** Takes an event of an answer; returns its end. */
function take(one, name, data) {
  if (name === 'accepted') {
    one.state.textContent = '';
    one.working.textContent = 'waiting for its turn';
    if (!one.isTaken) one.taken();
    one.isTaken = true;
  } else if (name === 'delta') {
    one.growing.append(data.text);
    one.working.textContent = 'writing';
  } else if (name === 'approval') {
    one.working.textContent = 'waiting for your approval';
    document.dispatchEvent(new CustomEvent('asks'));
  } else if (name === 'step') doing(one, data);
  else if (name === 'done') return { done: data };
  else if (name === 'error') return { error: data.error };
  return null;
}

function doing(one, data) {
  if (data.state === 'thinking') one.working.textContent = data.turn > 1 ? `thinking, step ${data.turn}` : 'thinking';
  else if (data.state === 'retry_wait') one.working.textContent = 'the model did not answer, it is asked again';
  else if (data.state === 'compacting') one.working.textContent = 'summarizing earlier messages';
  else if (data.state === 'tool_started') {
    const begun = step(data.tool, null);
    one.steps.push(begun);
    one.reply.steps.append(begun.node);
    one.working.textContent = `running ${visible(data.tool)}`;
    describe(one);
  } else if (data.state === 'tool_output') one.working.textContent = `${visible(data.tool)}: ${visible(data.tail)}`;
  else if (data.state === 'tool_ended') {
    const begun = one.steps.find((each) => each.name === data.tool && each.node.dataset.state === 'running');
    if (begun) endStep(begun, { failed: data.is_error, ms: data.duration_ms });
    one.working.textContent = `${visible(data.tool)} ended after ${duration(data.duration_ms)}`;
  }
  if (open && open.key === one.key) toEnd();
}

/** Puts what a tool was asked beside it: the call is written down before it begins. */
async function describe(one) {
  if (one.describing) return;
  one.describing = true;
  await api.pause(0.2);
  one.describing = false;
  const history = await api.get(pathOf(one.key, 20)).catch(() => null);
  if (!history) return;
  const said = history.events.filter((event) => event.type === 'message' && event.role === 'assistant');
  const run = said.length ? said[said.length - 1].run_id : null;
  const calls = said.filter((event) => event.run_id === run).flatMap((event) => event.content.filter((block) => block.type === 'tool_call'));
  for (const call of calls) {
    if (one.calls.has(call.id)) continue;
    const bare = one.steps.find((each) => each.name === call.name && !each.described);
    if (!bare) continue;
    one.calls.add(call.id);
    const whole = step(call.name, call.input);
    bare.node.dataset.id = call.id;
    bare.described = true;
    bare.node.querySelector('summary code').textContent = whole.node.querySelector('summary code').textContent;
    bare.body.prepend(...whole.body.childNodes);
  }
}

/** Puts what the server wrote down in the place of what was drawn meanwhile. */
async function settle(mine, one, ended, isCommand) {
  mine.settledAt = Date.now();
  const trouble = ended.refused || ended.error;
  const said = ended.done ? ended.done.reply : '';
  if (trouble) {
    one.reply.node.remove();
    one.state.textContent = ended.refused ? 'not sent' : '';
    if (trouble.code !== 'stopped' && trouble.code !== 'failed') one.nodes[0].after(note(`${trouble.message}${trouble.hint ? ` (${trouble.hint})` : ''}`, 'trouble'));
  }
  if (ended.done && ended.done.run_id === null) {
    // A command leaves nothing in the transcript.
    one.reply.words.replaceChildren(el('p', { class: 'words' }, visible(said)));
  }
  if (open !== mine) return refresh().catch(() => {});
  announce(trouble ? trouble.message : said.slice(0, 2000) || 'The agent chose to say nothing.');
  if (!ended.refused && !(isCommand || (ended.done && ended.done.run_id === null))) {
    await load().catch(() => {});
    for (const other of sending.get(mine.key) || []) $('lines').append(...other.nodes);
    toEnd();
  }
  return refresh().catch(() => {});
}
