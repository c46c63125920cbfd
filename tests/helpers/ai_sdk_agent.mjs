// The smallest agent that the AI SDK makes, with its default OpenAI provider: one tool, as many steps as the model wants.
//
//   node ai_sdk_agent.mjs NODE_MODULES_FOLDER BASE_URL TASK function|custom whole|stream
//
// With `custom` the shell is one of OpenAI's custom tools: the provider stores their calls, and later requests carry
// references to them. It prints the model's last words.

import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';

const [folder, baseURL, task, kind, mode] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const { generateText, jsonSchema, stepCountIs, streamText, tool } = require('ai');
const { createOpenAI } = require('@ai-sdk/openai');

const openai = createOpenAI({ baseURL, apiKey: 'key-of-a-test' });
const run = (command) => {
  const done = spawnSync('sh', ['-c', command], { encoding: 'utf8' });
  return `${done.stdout}${done.stderr}exit code ${done.status}`;
};
const description = 'Run a shell command.';
const inputSchema = jsonSchema({
  type: 'object',
  properties: { command: { type: 'string' } },
  required: ['command'],
  additionalProperties: false,
});
const shell =
  kind === 'custom'
    ? openai.tools.customTool({ description, execute: async (command) => run(command) })
    : tool({ description, inputSchema, execute: async ({ command }) => run(command) });
const request = { model: openai('gpt-5.5'), prompt: task, tools: { shell }, stopWhen: stepCountIs(100), maxRetries: 0 };

if (mode === 'stream') {
  const result = streamText({ ...request, onError: ({ error }) => { throw error; } });
  await result.consumeStream();
  console.log(await result.text);
} else {
  console.log((await generateText(request)).text);
}
