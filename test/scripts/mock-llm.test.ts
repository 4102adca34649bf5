/** `npm run mock-llm` as a process: how it ends. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, onTestFinished, test } from "vitest";

const main = join(import.meta.dirname, "../../examples/mock-llm/src/main.ts");

test.each([
  ["before its first byte", { "x-mock-first-byte-ms": "60000" }, false],
  ["between two events", { "x-mock-delay-ms": "60000" }, true],
] as const)("SIGTERM ends the mock LLM at once while a response pauses %s", async (_, headers, isStream) => {
  const child = spawn(process.execPath, [main], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, PORT: "0" },
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const exited = once(child, "exit");
  const [line] = (await once(createInterface(child.stdout), "line")) as [string];
  const { url } = JSON.parse(line) as { url: string };
  const client = new AbortController();
  const body = JSON.stringify({ stream: isStream, messages: [{ role: "user", content: "Why?" }] });
  const asked = fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body, signal: client.signal });
  // The head of a stream comes before its first pause. Before a first byte only a later request shows that it waits.
  if (isStream) await asked;
  else await (await fetch(`${url}/v1/chat/completions`, { method: "POST", body })).text();
  client.abort();
  await asked.catch(() => undefined);
  child.kill("SIGTERM");
  // The pauses of a minute are longer than the timeout of this test.
  expect(await exited).toEqual([0, null]);
});
