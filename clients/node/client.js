// A client of the steadyrank service for web servers in Node. README.md says what it does when the service is away.
const WRONG = [400, 413, 414, 415, 422, 431]; // codes of requests that are wrong in themselves
const CLOSED = ["UND_ERR_SOCKET", "ECONNRESET", "EPIPE"]; // errors of an idle connection that the server closed
const AT_ONCE = 500; // queued answers per request
const LONGEST_PAUSE = 2000; // milliseconds between two tries
const PLACE = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+):[0-9]{1,5}$/i; // HOST:PORT
const MOST_BOARDS = 10_000; // for which a client remembers something
const EXIT = 5000; // milliseconds for queued answers: for each try, and at the end of the process

const sleep = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

export class Refused extends Error {
  constructor(code, message) {
    super(message);
    this.name = "Refused";
    this.code = code;
  }
}

export class Away extends Error {
  constructor(server, cause) {
    super(`no answer from ${server}: ${cause instanceof Error ? (cause.cause ?? cause).message : cause}`, { cause });
    this.name = "Away";
  }
}

const tryAgain = (code) => code >= 500 || code === 408 || code === 429;

function atLeast(name, value, least) {
  if (!(value >= least)) throw new RangeError(`${name} must be at least ${least}, not ${value}`);
  return value;
}

function names(what, value) {
  if (!Array.isArray(value)) throw new TypeError(`${what} must be a list of names, not ${JSON.stringify(value)}`);
  return value;
}

export class Client {
  #server;
  #headers;
  #timeout;
  #tries;
  #breaker;
  #most;
  #warn;
  #queue = [];
  #delivery = null;
  #hurry = () => {};
  #straight;
  #owners = new Map(); // by board
  #refused = new Map(); // by board, until it gives a list: the code already reported
  lost = 0;

  constructor(url = "http://127.0.0.1:8080", options = {}) {
    const { key, timeout, tries, breakerFailures = 5, breakerSeconds = 5, queue, warn = console.warn } = options;
    const { straight = false } = options;
    const { protocol } = new URL(url);
    if (!["http:", "https:"].includes(protocol))
      throw new TypeError(`the address of a server is http://HOST:PORT or https://HOST:PORT, not ${url}`);
    if (straight && protocol === "https:") throw new TypeError("straight goes to workers over http: it cannot be used with an https address");
    this.#straight = straight;
    this.#server = url.replace(/\/$/, "");
    this.#headers = { "content-type": "application/json", ...(key ? { authorization: `Bearer ${key}` } : {}) };
    this.#timeout = timeout === undefined ? undefined : atLeast("timeout", timeout, 1);
    this.#tries = tries === undefined ? undefined : atLeast("tries", tries, 1);
    this.#breaker = { most: atLeast("breakerFailures", breakerFailures, 1), failures: 0, until: 0 };
    this.#breaker.rest = 1000 * atLeast("breakerSeconds", breakerSeconds, 0.001);
    this.#most = atLeast("queue", queue ?? (tries === undefined ? 10_000 : 0), 0);
    this.#warn = warn;
  }

  get queued() {
    return this.#queue.length;
  }

  async rank(board, { fallback, ...body } = {}) {
    if (fallback !== undefined) names("fallback", fallback);
    try {
      const list = await this.#askForList(board, body);
      this.#refused.delete(board);
      return { ...list, fallback: false, why: "" };
    } catch (error) {
      if (fallback === undefined || !(error instanceof Away || error instanceof Refused) || WRONG.includes(error.code))
        throw error;
      if ([401, 403, 404].includes(error.code) && this.#refused.get(board) !== error.code) {
        if (this.#refused.size >= MOST_BOARDS) this.#refused.clear();
        this.#refused.set(board, error.code);
        this.#warn(`steadyrank: the fallback of ${board} is shown from now on: ${error.code}, ${error.message}`);
      }
      return { impression: "", items: [...fallback], expires: 0, fallback: true, why: error.message };
    }
  }

  async feedback(board, impression, { wait = true, ...answer } = {}) {
    const path = this.#path(board, "feedback");
    if (!impression) return { outcome: "fallback", says: "" };
    if (!wait && !this.#most) throw new TypeError("wait: false needs a queue: this client has queue 0 or tries");
    if (wait && !this.#queue.length) {
      try {
        const { outcome, says = "" } = await this.#ask(path, { impression, ...answer }, this.#quick(), board);
        return { outcome, says };
      } catch (error) {
        if (!this.#most || !(error instanceof Away || (error instanceof Refused && error.code >= 500))) throw error;
      }
    }
    if (this.#queue.length === this.#most) {
      this.#queue.shift();
      this.#lose(1, `more than ${this.#most} wait`);
    }
    this.#queue.push({ board, impression, ...answer });
    this.#delivery ??= this.#deliver();
    return { outcome: "queued", says: "" };
  }

  async observe(board, id, items, more = {}) {
    const body = { id, items: names("items", items), ...more };
    return this.#ask(this.#path(board, "observe"), body, this.#patient(), board);
  }

  async outcome(board, impression, item, value, { id, kind = "purchase" }) {
    const body = { impression, item, value, id, kind };
    return (await this.#ask(this.#path(board, "outcomes"), body, this.#patient(), board)).outcome;
  }

  async flush(milliseconds = EXIT) {
    let timer;
    const late = new Promise((done) => (timer = setTimeout(done, milliseconds)));
    this.#hurry();
    await Promise.race([this.#delivery, late]);
    clearTimeout(timer);
    return !this.#queue.length;
  }

  async close() {
    await this.flush();
    if (this.#queue.length) this.#warn(`steadyrank: ${this.#queue.length} answers to lists were not delivered`);
  }

  #quick() {
    return { timeout: this.#timeout ?? 200, tries: this.#tries ?? 1 };
  }

  #patient() {
    return { timeout: this.#timeout ?? 10_000, tries: this.#tries ?? 5 };
  }

  #path(board, verb) {
    if (["", ".", ".."].includes(board)) throw new TypeError(`${JSON.stringify(board)} cannot stand in a path`);
    return `/v1/boards/${encodeURIComponent(board)}/${verb}`;
  }

  async #ask(path, body, { timeout, tries }, board) {
    for (let attempt = 1; ; attempt++) {
      let response, content;
      try {
        response = await this.#send(path, JSON.stringify(body), AbortSignal.timeout(timeout), board);
        content = await response.text();
      } catch (error) {
        if (attempt === tries) throw new Away(this.#server, error);
        await sleep(Math.min(100 * 2 ** attempt, LONGEST_PAUSE));
        continue;
      }
      if (response.status === 200) return JSON.parse(content);
      if (response.status !== 503 || attempt === tries) throw new Refused(response.status, messageOf(content));
      await sleep(1000 * Number(response.headers.get("retry-after") ?? 1));
    }
  }

  async #send(path, body, signal, board) {
    const request = { method: "POST", headers: this.#headers, body, signal };
    const owner = this.#owners.get(board);
    let response;
    try {
      response = await fetchAgain((owner ?? this.#server) + path, request);
    } catch (error) {
      this.#forget(owner);
      if (!owner || signal.aborted) throw error;
      response = await fetchAgain(this.#server + path, request);
    }
    if (this.#straight && board !== undefined) this.#learn(board, owner, response);
    return response;
  }

  #learn(board, owner, response) {
    const place = response.headers.get("steadyrank-owner") ?? "";
    if (PLACE.test(place)) {
      if (this.#owners.size >= MOST_BOARDS) this.#owners.clear();
      this.#owners.set(board, `http://${place}`);
    } else if (response.status === 503) this.#forget(owner);
  }

  #forget(owner) {
    for (const [board, place] of this.#owners) if (place === owner) this.#owners.delete(board);
  }

  async #askForList(board, body) {
    const [breaker, path] = [this.#breaker, this.#path(board, "rank")];
    if (breaker.failures >= breaker.most) {
      if (performance.now() < breaker.until) throw new Away(this.#server, "asked of late, and not again yet");
      breaker.until = performance.now() + breaker.rest; // this is the trial request
    }
    const note = (worked) => {
      breaker.failures = worked ? 0 : breaker.failures + 1;
      if (!worked) breaker.until = performance.now() + breaker.rest;
      if (breaker.failures === breaker.most)
        this.#warn(`steadyrank: ${breaker.most} lists in a row failed: the server is asked once in ${breaker.rest} ms`);
    };
    try {
      const list = await this.#ask(path, body, this.#quick(), board);
      note(true);
      return list;
    } catch (error) {
      note(error instanceof Refused && error.code < 500);
      throw error;
    }
  }

  async #deliver() {
    // start in a later turn, so that #delivery is set before it can end
    await null;
    const last = () => this.close();
    process.once("beforeExit", last);
    for (let pause = 100, atOnce = AT_ONCE; this.#queue.length; ) {
      const rows = this.#queue.slice(0, atOnce);
      const results = await this.#results(rows);
      if (results === null) {
        atOnce = 1; // one of them may be malformed, so send them one by one
        continue;
      }
      atOnce = Math.min(2 * atOnce, AT_ONCE);
      const again = this.#settle(rows, results);
      if (!again) pause = 100;
      else {
        await this.#restOfQueue(pause);
        pause = Math.min(2 * pause, LONGEST_PAUSE);
      }
    }
    process.off("beforeExit", last);
    this.#delivery = null;
  }

  async #results(rows) {
    const all = (code, message) => rows.map(() => ({ code, message }));
    try {
      const { feedback } = await this.#ask("/v1/feedback", { feedback: rows }, { timeout: Math.min(this.#patient().timeout, EXIT), tries: 1 });
      return feedback?.length === rows.length ? feedback : all(503, "no answer for each row"); // such as a proxy's error page
    } catch (error) {
      if (rows.length > 1 && error instanceof Refused && !tryAgain(error.code)) return null;
      return all(error instanceof Refused ? error.code : 503, error.message);
    }
  }

  #settle(rows, results) {
    const sent = new Set(rows.filter((_, k) => !tryAgain(results[k].code)));
    const refused = results.filter(({ code }) => code !== 200 && !tryAgain(code));
    this.#queue = this.#queue.filter((row) => !sent.has(row));
    if (refused.length) this.#lose(refused.length, `refused with ${refused[0].code}: ${refused[0].message ?? ""}`);
    return sent.size < rows.length;
  }

  #lose(count, why) {
    this.lost += count;
    this.#warn(`steadyrank: ${count} answers to lists were not delivered: ${why}`);
  }

  #restOfQueue(milliseconds) {
    return new Promise((done) => {
      const timer = setTimeout(done, milliseconds);
      timer.unref(); // a waiting queue does not keep the process alive; at its end it is tried once more
      this.#hurry = () => {
        clearTimeout(timer);
        done();
      };
    });
  }
}

async function fetchAgain(url, request) {
  try {
    return await fetch(url, request);
  } catch (error) {
    if (!CLOSED.includes(error.cause?.code)) throw error;
    return fetch(url, request); // idle connections get closed at some point: not a failure
  }
}

function messageOf(content) {
  try {
    return JSON.parse(content).message ?? "";
  } catch {
    return content.slice(0, 200);
  }
}
