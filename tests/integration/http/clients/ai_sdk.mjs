// The AI SDK and OpenAI's own SDK for JavaScript against the facade. MODULES is where they are installed.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(pathToFileURL(`${process.env.MODULES}/`));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const { default: OpenAI } = await load('openai');
const { generateText, streamText, embedMany, generateObject, jsonSchema } = await load('ai');
const { createOpenAI } = await load('@ai-sdk/openai');
const { createOpenAICompatible } = await load('@ai-sdk/openai-compatible');
const [baseURL, apiKey] = [process.env.OPENAI_BASE_URL, process.env.OPENAI_API_KEY];
const quick = { maxRetries: 0 };

const own = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const chat = await own.chat.completions.create({ model: 'agent', messages: [{ role: 'user', content: 'one' }] });
console.log(chat.choices[0].message.content, chat.usage.total_tokens > 0);
let streamed = '';
for await (const part of await own.chat.completions.create({ model: 'agent', messages: [{ role: 'user', content: 'two' }], stream: true })) streamed += part.choices[0]?.delta?.content || '';
console.log(streamed);
console.log((await own.responses.create({ model: 'agent', input: 'three' })).output_text);
console.log((await own.embeddings.create({ model: 'agent', input: ['dog', 'cat'] })).data.length);

const openai = createOpenAI({ baseURL, apiKey });
const compatible = createOpenAICompatible({ name: 'agent', baseURL, apiKey, includeUsage: true });
for (const [name, model] of [['responses', openai('agent')], ['chat', openai.chat('agent')], ['compatible', compatible('agent')]]) {
  const whole = await generateText({ model, prompt: `${name} whole`, system: 'Be short.', ...quick });
  console.log(whole.text, whole.finishReason, whole.usage.totalTokens > 0);
  const parts = streamText({ model, messages: [{ role: 'user', content: 'first' }, { role: 'assistant', content: 'yes' }, { role: 'user', content: `${name} in parts` }], ...quick });
  let text = '';
  for await (const part of parts.textStream) text += part;
  console.log(text, await parts.finishReason);
  try {
    const schema = jsonSchema({ type: 'object', properties: { n: { type: 'integer' } }, required: ['n'], additionalProperties: false });
    console.log('taken', (await generateObject({ model, schema, prompt: 'a number', ...quick })).object);
  } catch (error) {
    console.log('refused:', error.statusCode, JSON.parse(error.responseBody).error.message);
  }
}
const { embeddings } = await embedMany({ model: openai.embedding('agent'), values: ['dog', 'cat'], ...quick });
console.log(embeddings.length, embeddings[0].length > 8);
