// What stands beside the conversations: memory and facts, jobs, costs, the queue, the settings.

import * as api from './api.js';
import { announce, el, svg, timeOf, visible } from './dom.js';
import { note } from './transcript.js';

const $ = (id) => document.getElementById(id);
const money = (usd) => `$${usd.toFixed(usd && usd < 0.01 ? 4 : 2)}`;

const sentence = (words) => (words ? `${words[0].toUpperCase()}${words.slice(1)}${/[.!?]$/.test(words) ? '' : '.'} ` : '');

function table(label, titles, rows) {
  if (!rows.length) return el('p', { class: 'quiet' }, 'Nothing.');
  return el('div', { class: 'scroll', tabindex: '0', role: 'group', 'aria-label': label }, el('table', {},
    el('thead', {}, el('tr', {}, titles.map((title) => (title ? el('th', { scope: 'col' }, title) : el('td'))))),
    el('tbody', {}, rows.map((row) => el('tr', {}, row.map((cell) => el('td', {}, cell)))))));
}

const section = (title, ...children) => el('section', { class: 'card' }, title ? el('h2', {}, title) : null, ...children);

/** A button that does something on the server, asks first when `sure` says so, and draws the panel again. */
function act(label, words, order, again, sure) {
  const button = el('button', { type: 'button', 'aria-label': `${label}: ${words}`, onclick: async () => {
    if (sure && !confirm(sure)) return;
    button.disabled = true;
    try {
      const said = await order();
      announce(said.reply || 'Done.');
      await again();
    } catch (error) {
      button.after(note(error.message, 'trouble'));
      button.disabled = false;
    }
  } }, label);
  return button;
}

/** Where something stands: a line of a file, or a conversation. */
function placeOf(path, line, words) {
  const session = /^state\/sessions\/(?:archive\/)?([^/.]+)\.[^/]*jsonl$/.exec(path);
  const to = session ? `#/c/${encodeURIComponent(session[1])}` : `#/lines/${encodeURIComponent(path)}/${line}`;
  return path.startsWith('workspace/') || session ? el('a', { href: to }, words) : el('span', {}, words);
}

export async function memory(question) {
  const field = el('input', { type: 'search', name: 'q', maxlength: '400', value: question || '', 'aria-label': 'Search the memory', placeholder: 'Search the memory' });
  const form = el('form', { class: 'row', onsubmit: (event) => { event.preventDefault(); location.hash = `#/memory/${encodeURIComponent(field.value.trim())}`; } }, field, el('button', { class: 'primary' }, 'Search'));
  const found = question ? await api.get(`/api/v1/search?k=20&q=${encodeURIComponent(question)}`) : { results: [] };
  const hits = found.results.map((hit) => el('article', { class: 'hit' },
    el('h2', {}, placeOf(hit.path, hit.start_line, `${visible(hit.path)}:${hit.start_line}`), el('span', { class: 'quiet' }, ` ${Math.round(hit.score * 100)} %`)), el('p', { class: 'words' }, visible(hit.text))));
  const { facts } = await api.get(`/api/v1/facts?q=${encodeURIComponent(question || '')}`);
  return [
    section('', form, ...(question ? (hits.length ? hits : [el('p', { class: 'quiet' }, 'Nothing is found.')]) : [])),
    section('Facts', ...(facts.length ? facts.slice(0, 300).map(factOf) : [el('p', { class: 'quiet' }, question ? 'No fact has these words.' : 'No facts yet.')])),
  ];
}

function factOf(fact) {
  const words = `${fact.entity} ${fact.attribute}: ${fact.value}`;
  const origins = el('div', { class: 'origins' });
  const why = el('details', { class: 'fact', ontoggle: async () => {
    if (!why.open || origins.hasChildNodes()) return;
    const document = await api.get(`/api/v1/facts/${fact.id}`).catch((error) => ({ sources: [], error }));
    origins.replaceChildren(...(document.error ? [note(document.error.message, 'trouble')] : document.sources.map((one) => el('blockquote', {}, el('p', { class: 'words' }, visible(one.quote)), el('footer', { class: 'quiet' }, placeOf(one.path, one.line, `${visible(one.path)}:${one.line}`), ' ', timeOf(one.at))))));
    if (!origins.hasChildNodes()) origins.append(placeOf(fact.source, fact.source_line, `${visible(fact.source)}:${fact.source_line}`));
  } }, el('summary', {}, visible(words)), el('p', { class: 'quiet' }, `${Math.round(fact.confidence * 100)} % sure, since ${new Date(fact.valid_from).toLocaleDateString()}`), origins,
  act('Forget', words, () => api.post('/api/v1/forget', { target: String(fact.id) }), async () => why.remove(), `Forget “${words}”? It then counts no more.`));
  return why;
}

export async function lines(path, line) {
  const file = await api.get(`/api/v1/lines?path=${encodeURIComponent(path)}&line=${line}`);
  const rows = file.lines.map((text, at) => {
    const number = file.start_line + at;
    return el('li', { value: number, class: number === file.line ? 'meant' : undefined, id: number === file.line ? 'meant' : undefined }, visible(text) || ' ');
  });
  const last = file.start_line + file.lines.length - 1;
  return [section(visible(file.path), el('p', { class: 'quiet' }, `Lines ${file.start_line} to ${last} of ${file.total_lines}`), el('ol', { class: 'lines', start: file.start_line }, rows),
    last < file.total_lines ? el('a', { href: `#/lines/${encodeURIComponent(path)}/${last + 20}` }, 'Go on') : null)];
}

export async function jobs() {
  const { jobs } = await api.get('/api/v1/jobs');
  const again = () => window.dispatchEvent(new Event('hashchange'));
  const order = (job, op) => () => api.post(`/api/v1/jobs/${encodeURIComponent(job.id)}`, { op });
  const rows = jobs.map((job) => [
    el('strong', {}, visible(job.name)), el('code', {}, visible(scheduleOf(job.schedule))), job.enabled ? (job.next_at ? timeOf(job.next_at) : '–') : 'paused',
    job.last_at ? el('span', {}, timeOf(job.last_at), ` ${visible(job.last_status || '')}`) : '–',
    el('div', { class: 'row' }, act('Run', job.name, order(job, 'run'), again), act(job.enabled ? 'Pause' : 'Resume', job.name, order(job, job.enabled ? 'pause' : 'resume'), again), act('Remove', job.name, order(job, 'remove'), again, `Remove the job “${job.name}”?`)),
  ]);
  return [section('', table('Jobs', ['Name', 'When', 'Next', 'Last', ''], rows), el('p', { class: 'quiet' }, 'Ask in a chat for a new one: “every weekday at 8 tell me the weather”.'))];
}

const scheduleOf = (schedule) => (typeof schedule === 'string' ? schedule : Object.values(schedule || {}).join(' '));

export async function costs(period = 'month') {
  const [days, models] = await Promise.all([api.get(`/api/v1/cost?period=${period}&by=day`), api.get(`/api/v1/cost?period=${period}`)]);
  const groups = (days.groups || []).slice().sort((a, b) => (a.name < b.name ? -1 : 1)).slice(-31);
  const choices = el('p', { class: 'row' }, ['today', 'week', 'month', 'all'].map((one) => el('a', { href: `#/costs/${one}`, class: 'chip', 'aria-current': one === period ? 'true' : undefined }, one)));
  const caps = [['a day', models.caps.day_usd], ['a month', models.caps.month_usd]].filter(([, usd]) => usd > 0).map(([name, usd]) => `limit of ${name} ${money(usd)}`);
  const words = [`${money(models.total_cost_usd)} in ${models.calls} calls`, models.unpriced_calls ? `${models.unpriced_calls} of them without a price` : '', ...caps].filter(Boolean).join('; ');
  const rows = models.models.map((one) => [visible(one.model), String(one.calls), one.input_tokens.toLocaleString(), one.output_tokens.toLocaleString(), money(one.cost_usd)]);
  return [section('', choices, el('p', {}, words), groups.length ? bars(groups) : el('p', { class: 'quiet' }, 'Nothing was spent.')), section('Models', table('Models', ['Model', 'Calls', 'Tokens in', 'Tokens out', 'Cost'], rows))];
}

function bars(groups) {
  const most = Math.max(...groups.map((group) => group.cost_usd), 1e-9);
  const [width, height, head, foot] = [640, 160, 18, 22];
  const step = width / Math.max(groups.length, 7);
  const chart = svg('svg', { viewBox: `0 0 ${width} ${height}`, class: 'chart', role: 'img', 'aria-label': `US dollars a day: ${groups.map((group) => `${group.name} ${money(group.cost_usd)}`).join(', ')}` });
  groups.forEach((group, at) => {
    const tall = Math.max((group.cost_usd / most) * (height - head - foot), group.cost_usd > 0 ? 2 : 0);
    const middle = at * step + step / 2;
    chart.append(svg('g', {}, svg('title', {}, `${group.name}: ${money(group.cost_usd)}`),
      svg('rect', { x: at * step + 2, y: height - foot - tall, width: step - 4, height: tall, rx: 2 }),
      svg('text', { x: middle, y: height - 6 }, group.name.slice(8) || group.name)));
  });
  chart.append(svg('text', { x: width - 2, y: 12, class: 'most' }, `most ${money(most)}`));
  return chart;
}

export async function queue() {
  const queue = await api.get('/api/v1/queue');
  const again = () => window.dispatchEvent(new Event('hashchange'));
  const order = (id, action) => () => api.post(`/api/v1/queue/${encodeURIComponent(id)}`, { action });
  const open = (row) => [el('code', {}, row.id), visible(row.place), visible(row.state), String(row.attempts), timeOf(row.created_at), row.waits ? visible(row.waits.waits_for) : ''];
  const titles = ['Id', 'Where', 'State', 'Tries', 'Since', 'Waits for'];
  const dead = queue.dead.map((row) => [el('code', {}, row.id), visible(row.reason), String(row.attempts), timeOf(row.created_at),
    el('div', { class: 'row' }, act('Retry', row.id, order(row.id, 'retry'), again), act('Drop', row.id, order(row.id, 'drop'), again, `Drop ${row.id}? It is not tried again.`))]);
  return [section('Dead letters', table('Dead letters', ['Id', 'Why', 'Tries', 'Since', ''], dead)), section('Messages not yet answered', table('Inbox', titles, queue.inbox.map(open))), section('Answers not yet sent', table('Outbox', titles, queue.outbox.map(open)))];
}

export async function settings() {
  const { settings } = await api.get('/api/v1/settings');
  const filter = el('input', { type: 'search', 'aria-label': 'Filter settings', placeholder: 'Filter settings', oninput: () => draw() });
  const place = el('div');
  const draw = () => {
    const wanted = filter.value.toLowerCase();
    const shown = settings.filter((one) => `${one.key} ${one.value}`.toLowerCase().includes(wanted));
    place.replaceChildren(table('Settings', ['Setting', 'Value', 'From'], shown.map((one) => [el('code', {}, visible(one.key)), el('code', {}, visible(one.value)), visible(one.origin)])));
  };
  draw();
  return [section('', el('p', { class: 'quiet' }, 'They are read from agent.toml; agent-send and the daemon change none of them here.'), filter, place)];
}

/** What waits for the owner, in the conversation that is open and elsewhere. */
export class Asks {
  constructor({ current }) {
    this.current = current;
    this.cards = new Map();
  }

  async refresh() {
    const { approvals } = await api.get('/api/v1/approvals');
    const there = new Set(approvals.map((one) => one.id));
    for (const [id, card] of this.cards) {
      if (!there.has(id)) {
        card.remove();
        this.cards.delete(id);
      }
    }
    const open = this.current();
    let elsewhere = [];
    for (const one of approvals) {
      const isHere = open && one.session === open.key;
      if (!isHere) elsewhere.push(one);
      if (!this.cards.has(one.id)) {
        this.cards.set(one.id, this.card(one));
        if (isHere) announce(`Approval needed: ${one.tool} ${one.shown}`);
      }
      const card = this.cards.get(one.id);
      if (isHere && card.parentNode !== $('asks')) {
        $('asks').append(card);
        card.scrollIntoView({ block: 'nearest' });
      }
      else if (!isHere) card.remove();
    }
    const links = elsewhere.slice(0, 3).map((one) => el('a', { href: `#/c/${encodeURIComponent(one.session)}` }, `${visible(one.tool)} in ${visible(one.session)}`));
    $('banner').replaceChildren(...(elsewhere.length ? [el('span', {}, `${elsewhere.length} waiting for your approval: `), ...links] : []));
    return elsewhere.length;
  }

  card(one) {
    const why = el('input', { type: 'text', 'aria-label': 'Why not (optional)', placeholder: 'Why not (optional)', maxlength: '1000' });
    const wantsWords = one.wanted && one.wanted.how !== 'Yes or No';
    const answer = wantsWords ? el('input', { type: 'text', 'aria-label': 'Your answer', placeholder: 'Your answer', maxlength: '4000', onkeydown: (event) => { if (event.key === 'Enter' && !event.isComposing) decide('approve'); } }) : null;
    const decide = async (verdict) => {
      const words = verdict === 'deny' ? why.value : answer && answer.value;
      card.querySelectorAll('button').forEach((button) => { button.disabled = true; });
      try {
        await api.post(`/api/v1/approvals/${encodeURIComponent(one.id)}`, words ? { verdict, why: words } : { verdict });
        announce({ deny: 'Denied.', session: 'Allowed in this conversation.' }[verdict] || (one.wanted ? 'Answered.' : 'Allowed.'));
      } catch (error) {
        card.append(note(error.message, 'trouble'));
        card.querySelectorAll('button').forEach((button) => { button.disabled = false; });
        return;
      }
      card.remove();
      $('text').focus();
    };
    const button = (label, verdict, kind) => el('button', { type: 'button', class: kind, onclick: () => decide(verdict) }, label);
    const card = el('div', { class: 'ask', role: 'group', 'aria-label': `Approval of ${visible(one.tool)}` }, el('h2', {}, one.wanted ? 'I am asked to ask you: ' : 'May I do this? ', el('code', {}, visible(one.tool))),
      el('pre', {}, one.shown), el('p', { class: 'quiet' }, sentence(visible(one.why)), 'It counts as denied after ', timeOf(one.expires_at), '.'),
      one.rule ? el('p', { class: 'quiet' }, 'In this conversation: ', el('code', {}, visible(one.rule))) : '',
      wantsWords ? el('p', {}, 'Answer: ', visible(one.wanted.how)) : '',
      answer ? el('div', { class: 'row' }, answer, button('Answer', 'approve', 'primary')) : '',
      el('div', { class: 'row' }, answer ? '' : button(one.wanted ? 'Yes' : 'Allow once', 'approve', 'primary'), one.rule ? button('Allow in this conversation', 'session', '') : '', button(one.wanted ? 'No' : 'Deny', 'deny', ''), why));
    return card;
  }
}
