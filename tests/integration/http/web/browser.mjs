// The chat as a person uses it. `browser.mjs STORY ADDRESS TOKEN`; ends with 1 and a reason when something is amiss.
import { createRequire } from 'node:module';
import fs from 'node:fs';
import assert from 'node:assert/strict';

const modules = process.env.MODULES;
const require = createRequire(`${modules}/`);
const { default: puppeteer } = await import(require.resolve('puppeteer-core'));
const axeSource = fs.readFileSync(`${modules}/axe-core/axe.min.js`, 'utf8');
const [story, address, token] = process.argv.slice(2);

const browser = await puppeteer.launch({ executablePath: process.env.BROWSER, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'] });
const troubles = [];

async function open({ width = 1280, height = 800, dark = false } = {}) {
  const page = await browser.newPage();
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }]);
  page.on('pageerror', (error) => troubles.push(error.message));
  page.on('console', (message) => { if (message.type() === 'error' && !/status of (401|409)/.test(message.text())) troubles.push(message.text()); });
  page.on('request', (request) => { if (!request.url().startsWith(address) && !/^(blob|data|about):/.test(request.url())) troubles.push(`asked for ${request.url()}`); });
  return page;
}

async function signIn(page) {
  await page.goto(`${address}/`);
  await page.type('#token', token);
  await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')]);
  await page.waitForSelector('#text');
}

/** Waits until the words stand in the conversation, or wherever `place` is. */
async function see(page, words, place = '#lines') {
  await page.waitForFunction((place, words) => document.querySelector(place)?.innerText.includes(words), { timeout: 20000 }, place, words)
    .catch(async () => assert.fail(`${JSON.stringify(words)} is not in ${place}: ${await page.$eval(place, (node) => node.innerText).catch(() => 'nothing')}`));
}

async function axe(page, name) {
  await page.evaluate(axeSource);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  const said = violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 200)).join(' | ')}`);
  assert.deepEqual(said, [], `axe: ${name}`);
}

async function say(page, words) {
  await page.type('#text', words);
  await page.keyboard.press('Enter');
}

const stories = {
  async conversation() {
    const page = await open();
    await page.goto(`${address}/`);
    await axe(page, 'the form');
    await page.type('#token', 'wrong');
    await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')]);
    await see(page, 'This is not the token.', 'main');
    await signIn(page);
    assert.equal(await page.evaluate(() => document.cookie), '', 'no script sees the cookie');
    await say(page, 'hello');
    await see(page, 'Hello Ada.');
    assert.equal(await page.$eval('#lines strong', (node) => node.textContent), 'Ada');
    // The list has it, by its first words.
    await see(page, 'hello', '#conversations');
    // A tool, its exact call, the owner's word.
    await say(page, 'what does it say?');
    await page.waitForSelector('.ask');
    assert.match(await page.$eval('.ask pre', (node) => node.textContent), /echo forty-two > answer\.txt && cat answer\.txt # \\u\{e0041\}/);
    await axe(page, 'a question');
    await page.click('.ask .primary');
    await see(page, 'It says forty-two.');
    await page.waitForSelector('.step[data-state=done]');
    // What it was asked is fetched beside the stream, and may come after its end.
    await see(page, 'echo forty-two', '.step summary');
    await page.waitForFunction(() => !document.querySelector('.working'));
    await page.$eval('.step summary', (node) => node.click());
    await see(page, 'forty-two', '.step-body pre:last-child');
    // A second tab shows the same, once.
    const second = await open();
    await second.goto(page.url());
    await see(second, 'It says forty-two.');
    // What hangs is stopped.
    await page.bringToFront();
    await say(page, 'for ever');
    await page.waitForSelector('[aria-label=Stop]:not([hidden])');
    await see(page, 'thinking');
    await page.keyboard.press('Escape');
    await see(page, 'Stopped.');
    const lines = await page.$eval('#lines', (node) => node.innerText);
    assert.equal(lines.split('for ever').length, 2, 'said once');
    // A command is completed and answered without the model.
    await page.type('#text', '/stat');
    await page.waitForSelector('#choices:not([hidden])');
    await page.keyboard.press('Tab');
    assert.equal(await page.$eval('#text', (node) => node.value), '/status ');
    await page.keyboard.press('Enter');
    await see(page, 'Conversations: 1');
    // A draft is there after a reload.
    await page.type('#text', 'half a thought');
    await page.reload();
    await see(page, 'It says forty-two.');
    assert.equal(await page.$eval('#text', (node) => node.value), 'half a thought');
    // Signing out ends the session, for a copy of the cookie too.
    const cookies = await browser.cookies();
    await Promise.all([page.waitForNavigation(), page.click('#logout')]);
    await browser.setCookie(...cookies);
    await page.goto(`${address}/`);
    assert.ok(await page.$('#token'), 'the old cookie opens nothing');
  },

  async granted() {
    const page = await open();
    await signIn(page);
    const press = (label) => page.$$eval('.ask button', (all, label) => all.find((one) => one.textContent === label).click(), label);
    // Once is asked again.
    await say(page, 'do it');
    await page.waitForSelector('.ask');
    await see(page, 'In this conversation: ', '.ask');
    await axe(page, 'a question with three answers');
    await press('Allow once');
    await see(page, 'first done');
    await say(page, 'again');
    await page.waitForSelector('.ask');
    await press('Allow in this conversation');
    await see(page, 'second done');
    // What it falls under is not asked again here ...
    await say(page, 'and again');
    await see(page, 'third done');
    assert.equal(await page.$('.ask'), null);
    // ... and is elsewhere.
    await page.click('#new');
    await say(page, 'here, too');
    await page.waitForSelector('.ask');
    assert.equal(await page.$eval('#lines', (node) => node.innerText.includes('fourth done')), false);
    await press('Deny');
    await see(page, 'fourth done');
  },

  async hostile() {
    const page = await open();
    await signIn(page);
    const words = '<script>window.pwned=1</script> "><img src=x onerror=window.pwned=1>';
    await page.evaluate((name) => {
      const data = new DataTransfer();
      data.items.add(new File(['hello'], name, { type: 'text/plain' }));
      document.getElementById('text').dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
    }, `${words}.txt`);
    await see(page, 'onerror', '#attached');
    await say(page, words);
    await see(page, 'head');
    await say(page, 'again');
    await page.waitForFunction(() => document.querySelectorAll('#lines h3').length >= 2, { timeout: 20000 });
    await page.waitForFunction(() => !document.querySelector('.working'));
    const found = await page.evaluate(() => ({
      pwned: 'pwned' in window,
      made: [...document.querySelectorAll('#place script, #place img, #place b, #place i, #side script, #side img')].map((node) => node.outerHTML),
      links: [...document.querySelectorAll('#lines a')].map((node) => node.protocol).filter((protocol) => !/^(https?|mailto):$/.test(protocol)),
    }));
    assert.deepEqual(found, { pwned: false, made: [], links: [] });
    const text = await page.$eval('#lines', (node) => node.textContent);
    assert.ok(!/[\u202a-\u202e]/.test(text) && text.includes('\\u{202e}c'), 'nothing turns the direction of words');
    await axe(page, 'hostile words');
  },

  async views() {
    const page = await open();
    await signIn(page);
    for (const dark of [false, true]) {
      for (const width of [390, 1920]) {
        const one = await open({ width, height: 900, dark });
        for (const view of ['c/http%3Aada', 'memory/canary-boat', 'lines/workspace%2Fmemory%2F2026-05-04.md/3', 'jobs', 'costs', 'queue', 'settings', 'status']) {
          await one.goto(`${address}/#/${view}`);
          await one.reload();
          await one.waitForFunction(() => [...document.querySelectorAll('main:not([hidden])')].some((main) => main.innerText.trim().length > 20), { timeout: 20000 });
          await new Promise((resolve) => setTimeout(resolve, 200));
          await axe(one, `${view}, ${width} px, ${dark ? 'dark' : 'light'}`);
          assert.ok(await one.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${view} fits into ${width} px`);
        }
        if (width === 390) {
          await one.click('#menu');
          await axe(one, 'the side');
          await one.keyboard.press('Escape');
          assert.ok(await one.evaluate(() => document.activeElement.id === 'menu'), 'the focus comes back');
        }
        await one.close();
      }
    }
    await page.goto(`${address}/#/memory/canary-boat`);
    await see(page, 'behind the door', '#panel');
    await page.click('.hit a');
    await see(page, 'Lines 1 to 3 of 3', '#panel');
    // Without JavaScript the status can be read.
    const plain = await open();
    await plain.setJavaScriptEnabled(false);
    await plain.goto(`${address}/`);
    const text = await plain.$eval('body', (node) => node.innerText);
    assert.ok(text.includes('Conversations') && text.includes('Queue') && !text.includes('New chat'), text);
  },
};

try {
  await stories[story]();
  assert.deepEqual(troubles, []);
} finally {
  await browser.close();
}
