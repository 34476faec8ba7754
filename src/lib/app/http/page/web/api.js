// The HTTP API, as any other client uses it. The cookie goes along by itself; this script never sees it.

/** What the server says is wrong. */
export class Refused extends Error {
  constructor(status, error) {
    super(error.message || `the server answers ${status}`);
    this.status = status;
    this.code = error.code;
    this.hint = error.hint;
  }
}

/** Returns a new idempotency key; `crypto.randomUUID` is missing where the page came over plain HTTP. */
export function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

async function refusal(response) {
  const body = await response.json().catch(() => ({}));
  if (response.status === 401) {
    // The session ended: the form takes the token again, drafts are kept.
    location.replace('/login');
  }
  return new Refused(response.status, body.error || {});
}

async function ask(path, init) {
  const response = await fetch(path, { redirect: 'error', ...init });
  if (!response.ok) throw await refusal(response);
  return response.json();
}

/** Asks for a document. */
export function get(path) {
  return ask(path, { headers: { accept: 'application/json' } });
}

/** Sends an order, once however often it is tried. */
export function post(path, body, key = newKey()) {
  return ask(path, { method: 'POST', headers: { 'content-type': 'application/json', 'idempotency-key': key }, body: JSON.stringify(body) });
}

/** The server says something every 15 s; after so many milliseconds of silence the connection is dead. */
const SILENCE = 40000;

/** Sends a message and calls `on` with the name and data of each event of its answer. Returns when the stream ends. */
export async function stream(body, key, on) {
  const dead = new AbortController();
  let watch = setTimeout(() => dead.abort(), SILENCE + 80000);
  const response = await fetch('/api/v1/chat/stream', {
    method: 'POST',
    redirect: 'error',
    signal: dead.signal,
    headers: { 'content-type': 'application/json', 'idempotency-key': key },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw await refusal(response);
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  for (;;) {
    clearTimeout(watch);
    watch = setTimeout(() => dead.abort(), SILENCE);
    const { done, value } = await reader.read();
    if (done) {
      clearTimeout(watch);
      return;
    }
    const pieces = (rest + decoder.decode(value, { stream: true })).split('\n\n');
    rest = pieces.pop();
    for (const piece of pieces) event(piece, on);
  }
}

function event(piece, on) {
  let name = '';
  let data = '';
  for (const line of piece.split('\n')) {
    if (line.startsWith('event: ')) name = line.slice(7);
    else if (line.startsWith('data: ')) data += line.slice(6);
  }
  if (name) on(name, JSON.parse(data));
}

/** Waits some seconds. */
export function pause(seconds) {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1000));
}
