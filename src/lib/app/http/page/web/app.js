// The page: which view is shown, and what is looked at now and then.

import * as api from './api.js';
import * as chat from './chat.js';
import * as panels from './panels.js';
import { Composer } from './composer.js';
import { announce, iconButton } from './dom.js';
import { note } from './transcript.js';

/** Seconds between two looks: in sight, and in the background. */
const LOOKS = [3, 20];
const $ = (id) => document.getElementById(id);
const narrow = matchMedia('(max-width: 760px)');

const composer = new Composer({ send: chat.send, stop: () => chat.stop(), busy: chat.busy });
const asks = new panels.Asks({ current: chat.current });
chat.onChange(() => composer.update());

const views = {
  memory: ['Memory', ([question]) => panels.memory(question)],
  lines: ['Memory', ([path, line]) => panels.lines(path, parseInt(line, 10) || 1)],
  jobs: ['Jobs', () => panels.jobs()],
  costs: ['Costs', ([period]) => panels.costs(period || 'month')],
  queue: ['Queue', () => panels.queue()],
  settings: ['Settings', () => panels.settings()],
};

/** Counts views, so that a slow answer does not draw over a newer one. */
let view = 0;

function decoded(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}

/** Shows what the address names. */
async function route() {
  const mine = (view += 1);
  const [name, ...rest] = location.hash.replace(/^#\/?/, '').split('/').map(decoded);
  closeSide();
  const isChat = !name || name === 'c';
  $('chat').hidden = !isChat;
  $('panel').hidden = !views[name];
  $('status').hidden = isChat || Boolean(views[name]);
  for (const link of document.querySelectorAll('#views a')) {
    if (name && link.getAttribute('href') === `#/${name}`) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  if (isChat) {
    const key = rest[0] || chat.newConversation();
    if (!rest[0]) history.replaceState(null, '', `#/c/${encodeURIComponent(key)}`);
    composer.open(key);
    await chat.show(key);
    look();
    if (!narrow.matches) $('text').focus();
    return;
  }
  chat.leave();
  if (views[name]) await panel(mine, views[name], rest);
  else await status(mine);
}

async function panel(mine, [title, draw], rest) {
  $('title').textContent = title;
  document.title = `${title} – agent`;
  const nodes = await draw(rest).catch((error) => [note(`${error.message}${error.hint ? ` (${error.hint})` : ''}`, 'trouble')]);
  if (mine !== view) return;
  $('panel').replaceChildren(...nodes);
  const meant = document.getElementById('meant');
  if (meant) meant.scrollIntoView({ block: 'center' });
  announce(title);
}

/** Takes the status from the server's own page, which is readable without this script, too. */
async function status(mine) {
  $('title').textContent = 'Status';
  document.title = 'Status – agent';
  const page = await fetch('/', { headers: { accept: 'text/html' } });
  if (!page.ok) return location.replace('/login');
  const there = new DOMParser().parseFromString(await page.text(), 'text/html').getElementById('status');
  if (mine === view && there) $('status').replaceChildren(...there.childNodes);
  return undefined;
}

let looking = false;

/** Looks what is new. */
async function look() {
  if (looking) return;
  looking = true;
  try {
    await Promise.all([chat.refresh(), asks.refresh()]);
    $('place').classList.remove('offline');
    $('doing').textContent = '';
  } catch {
    $('place').classList.add('offline');
    $('doing').textContent = 'not connected';
  }
  looking = false;
  const open = chat.current();
  if (open) document.title = `${$('title').textContent} – agent`;
}

function openSide() {
  $('side').classList.add('open');
  $('shade').hidden = false;
  $('side').querySelector('a, button').focus();
}

function closeSide() {
  $('side').classList.remove('open');
  $('shade').hidden = true;
}

function start() {
  const menu = iconButton('menu', 'Conversations and views', openSide, { id: 'menu' });
  $('bar').prepend(menu);
  $('side').querySelector('.side-head').append(iconButton('close', 'Close', () => { closeSide(); menu.focus(); }, { id: 'close-side' }));
  $('new').addEventListener('click', () => { location.hash = `#/c/${encodeURIComponent(chat.newConversation())}`; });
  $('shade').addEventListener('click', closeSide);
  $('filter').addEventListener('input', chat.drawList);
  $('logout').addEventListener('click', async () => {
    await api.post('/logout', {}).catch(() => {});
    location.replace('/login');
  });
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && $('side').classList.contains('open')) { closeSide(); menu.focus(); }
  });
  document.addEventListener('asks', () => asks.refresh().catch(() => {}));
  document.addEventListener('visibilitychange', () => { if (!document.hidden) look(); });
  window.addEventListener('hashchange', route);
  window.addEventListener('beforeunload', (event) => { if (chat.unsent()) event.preventDefault(); });
  const question = new URLSearchParams(location.search).get('q');
  if (question && !location.hash) location.hash = `#/memory/${encodeURIComponent(question)}`;
  else route();
  composer.learnCommands().catch(() => {});
  let since = 0;
  setInterval(() => {
    since += 1;
    if (since < LOOKS[document.hidden ? 1 : 0]) return;
    since = 0;
    look();
  }, 1000);
}

start();
