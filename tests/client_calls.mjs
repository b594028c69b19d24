// Carries out the calls of test_client.py with the client for Node, and prints what came of each.
import { createInterface } from "node:readline";
import { Away, Client, Refused } from "../clients/node/client.js";

const renamed = { breaker_failures: "breakerFailures", breaker_seconds: "breakerSeconds" };

function made({ url, options }) {
  const given = Object.fromEntries(Object.entries(options).map(([name, value]) => [renamed[name] ?? name, value]));
  if (given.timeout) given.timeout *= 1000;
  return new Client(url, { ...given, warn: () => {} });
}

async function call(client, [name, args, more]) {
  if (name === "queued" || name === "lost") return client[name];
  if (name === "wait") return new Promise((done) => setTimeout(done, 1000 * args[0], null));
  try {
    const result = await client[name](...args, ...(more ? [more] : []));
    if (name === "rank") return { items: result.items, fallback: result.fallback, impression: result.impression };
    if (name === "feedback") return result.says ? result : result.outcome;
    return name === "observe" ? result.ours : (result ?? null);
  } catch (error) {
    if (error instanceof Refused) return { refused: error.code };
    if (error instanceof Away) return "away";
    throw error;
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const story = JSON.parse(line);
  const client = made(story);
  const results = [];
  for (const one of story.calls) {
    const start = performance.now();
    const result = await call(client, one);
    results.push([result, (performance.now() - start) / 1000]);
  }
  console.log(JSON.stringify(results));
}
process.exit(0); // what stories leave in their queues stays there
