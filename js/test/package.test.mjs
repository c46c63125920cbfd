// The package as it is published: its files, and the examples of its README, word for word.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { serve } from "./served.mjs";

const execute = promisify(execFile);
const here = dirname(fileURLToPath(import.meta.url));
const packages = dirname(here);
const readme = await readFile(join(packages, "..", "js", "README.md"), "utf8");
const examples = [...readme.matchAll(/```js\n([^]*?)```/g)].map((found) => found[1]);

async function tarball() {
  const [name] = (await readdir(packages)).filter((file) => /^focusctx-.*\.tgz$/.test(file));
  return join(packages, name);
}

test("the package holds what is needed and nothing else", async () => {
  const { stdout } = await execute("tar", ["-tzf", await tarball()]);
  const modules = ["ai-sdk", "index", "mastra", "opencode", "pack"];
  const built = modules.flatMap((name) => [`package/dist/${name}.d.ts`, `package/dist/${name}.js`]);
  const others = ["package/LICENSE", "package/README.md", "package/package.json"];
  assert.deepEqual(stdout.trim().split("\n").sort(), [...others, ...built].sort());
});

test("the first example of the README runs in an empty folder", async (t) => {
  const url = await serve(t);
  const folder = await mkdtemp(join(tmpdir(), "focusctx-js-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const npm = ["install", "--offline", "--no-audit", "--no-fund", "--loglevel", "error", await tarball()];
  await execute("npm", npm, { cwd: folder });
  assert.deepEqual((await readdir(join(folder, "node_modules"))).filter((name) => !name.startsWith(".")), ["focusctx"]);
  await writeFile(join(folder, "example.mjs"), examples[0]);
  const { stdout, stderr } = await execute("node", ["example.mjs"], { cwd: folder, env: { ...process.env, FOCUSCTX_URL: url } });
  assert.equal(stderr, "");
  const [, before, after] = /(\d+) tokens → (\d+)/.exec(stdout);
  assert.ok(Number(after) <= 2000 && Number(before) > 10_000, stdout);
});

test("the other examples run beside an agent of yours", async (t) => {
  const url = await serve(t, { options: ["--budget", "4000"] });
  const folder = join(packages, "examples");
  await mkdir(folder, { recursive: true });
  t.after(() => rm(folder, { recursive: true, force: true }));
  for (const file of ["agent.mjs", "served.mjs", "my-agent.mjs"]) await cp(join(here, file), join(folder, file));
  assert.equal(examples.length, 4);
  for (const [number, example] of examples.slice(1).entries()) {
    await writeFile(join(folder, `example-${number}.mjs`), example);
    const run = execute("node", [`example-${number}.mjs`], { cwd: folder, env: { ...process.env, FOCUSCTX_URL: url } });
    const { stdout, stderr } = await run;
    assert.equal(stdout.trim(), "read 3 pages");
    assert.equal(stderr, "");
  }
});
