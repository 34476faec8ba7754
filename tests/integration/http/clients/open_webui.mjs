// Writes two messages in Open WebUI's page, as a person would, and prints what is answered.
import { createRequire } from 'node:module';
const require = createRequire(process.env.MODULES + '/');
const { default: puppeteer } = await import(require.resolve('puppeteer-core'));

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const browser = await puppeteer.launch({
  executablePath: '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--disable-background-networking', '--no-proxy-server'],
});
const page = await browser.newPage();
await page.setViewport({ width: 1280, height: 800 });
// It takes its time to start.
for (let left = 120; ; left -= 1) {
  try {
    await page.goto(process.env.WEBUI, { waitUntil: 'domcontentloaded' });
    break;
  } catch (error) {
    if (left === 0) throw error;
    await pause(1000);
  }
}
await page.waitForSelector('#chat-input', { timeout: 120_000 });
await pause(3000);
for (const button of await page.$$('button')) {
  // What is new in this version.
  if (/Okay, Let's Go/.test(await button.evaluate((one) => one.textContent))) await button.click();
}
for (const words of ['one', 'two']) {
  await page.click('#chat-input');
  await page.keyboard.type(words);
  await page.keyboard.press('Enter');
  const answer = `echo: ${words}`;
  await page.waitForFunction((text) => document.body.innerText.includes(text), { timeout: 60_000 }, answer);
  await pause(1000);
  console.log(answer);
}
await browser.close();
