// The field that messages are written in: files by choice, drop and paste, voice, `/` with the commands, drafts.

import * as api from './api.js';
import { announce, el, iconButton, visible } from './dom.js';

/** What the server takes in one request, bytes: base64 is a third longer. */
const MOST = Math.floor((10 << 20) * 0.74);
const MOST_FILES = 20;
const $ = (id) => document.getElementById(id);

/** Makes the field; `send(text, files, taken)` and `stop()` act, `busy()` says whether something runs. */
export class Composer {
  constructor({ send, stop, busy }) {
    Object.assign(this, { send, stop, busy });
    this.files = [];
    this.commands = [];
    this.key = null;
    this.text = $('text');
    this.picker = el('input', { type: 'file', multiple: true, class: 'sr', tabindex: '-1', 'aria-hidden': 'true', onchange: () => { this.add([...this.picker.files]); this.picker.value = ''; } });
    this.clip = iconButton('clip', 'Attach files', () => this.picker.click());
    this.mic = iconButton('mic', 'Record a voice message', () => this.record());
    this.go = iconButton('send', 'Send', null, { type: 'submit', class: 'icon-button primary' });
    this.halt = iconButton('stop', 'Stop', () => this.stop(), { class: 'icon-button' });
    this.text.before(this.clip);
    this.text.after(this.canRecord() ? this.mic : '', this.halt, this.go, this.picker);
    this.listen();
    this.update();
  }

  listen() {
    $('composer').addEventListener('submit', (event) => { event.preventDefault(); this.submit(); });
    this.text.addEventListener('input', () => { this.fit(); this.complete(); this.keep(); });
    this.text.addEventListener('keydown', (event) => this.pressed(event));
    this.text.addEventListener('paste', (event) => {
      const files = [...event.clipboardData.files];
      if (!files.length) return;
      event.preventDefault();
      this.add(files);
    });
    const chat = $('chat');
    chat.addEventListener('dragover', (event) => { if (event.dataTransfer.types.includes('Files')) { event.preventDefault(); chat.classList.add('dropping'); } });
    chat.addEventListener('dragleave', (event) => { if (!chat.contains(event.relatedTarget)) chat.classList.remove('dropping'); });
    chat.addEventListener('drop', (event) => {
      chat.classList.remove('dropping');
      if (!event.dataTransfer.files.length) return;
      event.preventDefault();
      this.add([...event.dataTransfer.files]);
    });
  }

  /** Shows the draft of a conversation. */
  open(key) {
    this.key = key;
    this.text.value = read(`draft ${key}`) || '';
    this.files = [];
    this.drawFiles();
    this.fit();
    this.closeChoices();
  }

  keep() {
    if (this.key) write(`draft ${this.key}`, this.text.value);
  }

  fit() {
    this.text.rows = 1;
    const line = parseFloat(getComputedStyle(this.text).lineHeight) || 22;
    this.text.rows = Math.max(1, Math.min(10, Math.round((this.text.scrollHeight - 16) / line)));
    this.update();
  }

  update() {
    this.halt.hidden = !this.busy();
    this.go.disabled = this.text.value.trim() === '' && !this.files.length;
  }

  async submit() {
    const text = this.text.value;
    if (text.trim() === '' && !this.files.length) return;
    const files = this.files;
    this.text.value = '';
    this.files = [];
    this.drawFiles();
    this.fit();
    this.closeChoices();
    const key = this.key;
    // The draft is kept until the server has the message.
    const taken = () => { if (this.key === key) this.keep(); else write(`draft ${key}`, ''); };
    const ended = await this.send(text, files.map(({ filename, content_type, data }) => ({ filename, content_type, data })), taken);
    const isBack = ended && ended.refused && this.key === key && this.text.value === '';
    if (isBack) {
      // What was not taken is not lost.
      this.text.value = text;
      this.files = files;
      this.drawFiles();
      this.fit();
      this.keep();
    }
  }

  pressed(event) {
    const isOpen = !$('choices').hidden;
    if (isOpen && ['ArrowDown', 'ArrowUp'].includes(event.key)) {
      event.preventDefault();
      return this.choose(event.key === 'ArrowDown' ? 1 : -1);
    }
    if (isOpen && (event.key === 'Tab' || (event.key === 'Enter' && !event.shiftKey && !this.isWhole()))) {
      event.preventDefault();
      return this.takeChoice();
    }
    if (event.key === 'Escape') {
      if (isOpen) return this.closeChoices();
      if (this.busy()) this.stop();
      return undefined;
    }
    // Enter also ends a word of an input method.
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing && !matchMedia('(pointer: coarse)').matches) {
      event.preventDefault();
      this.submit();
    }
    return undefined;
  }

  /** Returns true when what is written is a command already. */
  isWhole() {
    return this.commands.some((command) => `/${command.name}` === this.text.value.trim());
  }

  complete() {
    const begun = /^\/([a-z-]*)$/i.exec(this.text.value);
    const found = begun ? this.commands.filter((command) => command.name.startsWith(begun[1].toLowerCase())) : [];
    if (!found.length) return this.closeChoices();
    this.chosen = 0;
    $('choices').replaceChildren(...found.map((command, at) => el('div', { role: 'option', id: `choice-${at}`, 'aria-selected': String(at === 0), data: { name: command.name }, onmousedown: (event) => { event.preventDefault(); this.takeChoice(command.name); } },
      el('code', {}, `/${command.name}`), el('span', { class: 'quiet' }, visible(command.help)))));
    $('choices').hidden = false;
    this.text.setAttribute('aria-activedescendant', 'choice-0');
    this.text.setAttribute('aria-controls', 'choices');
    return undefined;
  }

  choose(by) {
    const all = [...$('choices').children];
    this.chosen = (this.chosen + by + all.length) % all.length;
    all.forEach((node, at) => node.setAttribute('aria-selected', String(at === this.chosen)));
    all[this.chosen].scrollIntoView({ block: 'nearest' });
    this.text.setAttribute('aria-activedescendant', `choice-${this.chosen}`);
    announce(all[this.chosen].textContent);
  }

  takeChoice(name = $('choices').children[this.chosen].dataset.name) {
    this.text.value = `/${name} `;
    this.closeChoices();
    this.keep();
    this.fit();
  }

  closeChoices() {
    $('choices').hidden = true;
    this.text.removeAttribute('aria-activedescendant');
    this.text.removeAttribute('aria-controls');
  }

  async add(files) {
    for (const file of files) {
      const sum = this.files.reduce((all, one) => all + one.size, 0);
      if (this.files.length >= MOST_FILES) return announce(`At most ${MOST_FILES} files go with one message.`);
      if (sum + file.size > MOST) {
        announce(`${file.name} is too large: all files of a message have at most ${Math.floor(MOST / 1e6)} MB.`);
        this.trouble(`${visible(file.name)} is too large: all files of a message have at most ${Math.floor(MOST / 1e6)} MB.`);
        continue;
      }
      const data = await base64(file);
      this.files.push({ filename: file.name || 'file', content_type: file.type || 'application/octet-stream', data, size: file.size });
      this.drawFiles();
      announce(`${file.name} is attached.`);
    }
    return this.update();
  }

  trouble(words) {
    const line = el('li', { class: 'trouble', role: 'alert' }, words);
    $('attached').append(line);
    setTimeout(() => line.remove(), 8000);
  }

  drawFiles() {
    $('attached').replaceChildren(...this.files.map((file, at) => el('li', { class: 'file' }, visible(file.filename),
      iconButton('close', `Remove ${visible(file.filename)}`, () => { this.files.splice(at, 1); this.drawFiles(); this.text.focus(); }))));
    this.update();
  }

  canRecord() {
    return Boolean(navigator.mediaDevices && navigator.mediaDevices.getUserMedia && window.MediaRecorder);
  }

  async record() {
    if (this.recorder) return this.recorder.stop();
    let source;
    try {
      source = await navigator.mediaDevices.getUserMedia({ audio: true });
    } catch (error) {
      return this.trouble(`No sound can be recorded: ${error.message}`);
    }
    const kind = ['audio/ogg;codecs=opus', 'audio/webm;codecs=opus', 'audio/mp4'].find((each) => MediaRecorder.isTypeSupported(each));
    const recorder = new MediaRecorder(source, kind ? { mimeType: kind } : undefined);
    const pieces = [];
    recorder.ondataavailable = (event) => pieces.push(event.data);
    recorder.onstop = async () => {
      source.getTracks().forEach((track) => track.stop());
      this.recorder = null;
      this.mic.classList.remove('recording');
      this.mic.setAttribute('aria-label', 'Record a voice message');
      const type = recorder.mimeType.split(';')[0] || 'audio/webm';
      const ending = { 'audio/ogg': 'ogg', 'audio/mp4': 'm4a' }[type] || 'webm';
      await this.add([new File(pieces, `voice.${ending}`, { type })]);
    };
    this.recorder = recorder;
    recorder.start();
    this.mic.classList.add('recording');
    this.mic.setAttribute('aria-label', 'End the recording');
    return announce('Recording.');
  }

  async learnCommands() {
    const { commands } = await api.get('/api/v1/commands');
    this.commands = commands;
  }
}

function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(',') + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

// A browser may have no room, or forbid it.
function read(name) {
  try { return localStorage.getItem(name); } catch { return null; }
}

function write(name, value) {
  try {
    if (value) localStorage.setItem(name, value);
    else localStorage.removeItem(name);
  } catch { /* the draft is in the field */ }
}
