/** Requests to the server this page came from. */

const SLOT = "steadyrank-key";
const PATIENCE = 15_000;

/** The server refused a request. */
export class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** The server did not answer, or is unavailable. */
export class Away extends Error {}

/** The API key of this tab, if one was given. */
export function key() {
  return sessionStorage.getItem(SLOT);
}

/** Keep an API key until the tab is closed; null forgets it. */
export function keep(text) {
  if (text === null) sessionStorage.removeItem(SLOT);
  else sessionStorage.setItem(SLOT, text);
}

/** The path of a part of a board. */
export function path(board, ...parts) {
  return ["boards", board, ...parts].map(encodeURIComponent).join("/");
}

/** The path of a part of a collection. */
export function collectionPath(collection, ...parts) {
  return ["collections", collection, ...parts].map(encodeURIComponent).join("/");
}

/** Send a request; returns the JSON of the answer. */
export async function ask(method, route, body) {
  const answer = await send(method, route, body);
  try {
    return await answer.json();
  } catch (error) {
    throw new Away("The server's answer cannot be read.", { cause: error });
  }
}

/** Send a request; returns the raw answer. Throws Refusal or Away. */
export async function send(method, route, body, patience = PATIENCE) {
  const options = { method, headers: {}, cache: "no-store", signal: AbortSignal.timeout(patience) };
  if (key() !== null) options.headers.authorization = `Bearer ${key()}`;
  if (body !== undefined) {
    options.headers["content-type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(`/v1/${route}`, options);
  } catch (error) {
    throw new Away("The server does not answer.", { cause: error });
  }
  if (answer.ok) return answer;
  const message = await reason(answer);
  if (answer.status >= 500) throw new Away(message);
  throw new Refusal(answer.status, message);
}

/** The server's message in a refusal; an answer of a proxy may not be readable. */
async function reason(answer) {
  const code = `The server answered with code ${answer.status}.`;
  const text = await answer.text();
  try {
    return JSON.parse(text).message || code;
  } catch {
    return code;
  }
}
