// A rival with the lock of redlock: `rival.js URL KEY`.

const { setTimeout: sleep } = require("node:timers/promises");
const Redis = require("ioredis");
const Redlock = require("redlock");

const [url, key] = process.argv.slice(2);
const redlock = new Redlock([new Redis(url)]);
const now = process.hrtime.bigint;

async function turn() {
  const lock = await redlock.lock(key, 10_000);
  const enter = now();
  await sleep(5);
  const leave = now();
  await lock.unlock();
  console.log(`turn ${enter} ${leave}`);
}

async function main() {
  for (;;) {
    try {
      await turn();
    } catch (error) {
      // It gives up after some attempts.
      if (!error.message.includes("attempts to lock")) throw error;
    }
    await sleep(10);
  }
}

main();
