/** Select the page by the address, and handle the login. */

import { ask, Away, keep, key, Refusal } from "./api.js";
import { BoardPage } from "./board.js";
import { CollectionPage } from "./collection.js";
import { byId, say, show } from "./dom.js";
import { Live } from "./live.js";
import { Overview } from "./overview.js";
import { sentence } from "./words.js";

const PAGES = ["loading", "login", "overview", "board", "collection", "missing"];

/** Show one of the page's parts. */
function turnTo(id) {
  for (const page of PAGES) show(byId(page), page === id);
  show(byId("logout"), key() !== null && id !== "login");
}

/** Show the login form, with the reason. */
function askForKey(message) {
  live.stop();
  byId("ask").close("no"); // an open question can no longer be answered
  show(byId("notice"), false);
  say(byId("reason"), message);
  turnTo("login");
  byId("key").focus();
}

/** Handle a refusal: 401 and 403 ask for a key, 404 says what does not exist. */
function refused(error) {
  if (!(error instanceof Refusal)) throw error;
  if (error.code === 401 || error.code === 403) {
    const first = key() === null && error.code === 401 && !error.message.includes("token");
    askForKey(first ? "This server asks for an API key." : sentence(error.message));
  } else {
    missing(error.code === 404 ? collection === null ? "No such board" : "No such collection" : "Refused", sentence(error.message));
  }
}

/** Shown instead of a board that is unavailable. */
function missing(title, text) {
  say(byId("missing-title"), title);
  say(byId("missing-text"), text);
  turnTo("missing");
}

/** Try a key; keep it if the server accepts it. */
async function logIn(event) {
  event.preventDefault();
  const given = byId("key").value.trim();
  if (!/^[!-~]+$/.test(given)) {
    askForKey("This is no API key: a key has letters, digits, dots, - and _."); // a browser could not even send it
    return;
  }
  keep(given);
  try {
    await ask("GET", "boards?limit=1");
  } catch (error) {
    if (key() !== given) return; // another key was entered meanwhile: it stays
    keep(null);
    if (!(error instanceof Refusal || error instanceof Away)) throw error;
    askForKey(sentence(error.message));
    return;
  }
  location.reload(); // drop everything that another key has loaded
}

/** Forget the key, and everything loaded with it. */
function logOut() {
  keep(null);
  location.reload();
}

/** Store a token from the address like a key, and remove it from the address and the history. */
function takeToken() {
  const given = new URLSearchParams(location.search).get("token");
  if (given === null) return;
  if (/^[\w-]+$/.test(given)) keep(given);
  history.replaceState(null, "", location.pathname);
}

/** The board or collection in the address, after `/boards/` or `/collections/`; null if there is none. */
function nameAfter(start) {
  if (!location.pathname.startsWith(start)) return null;
  const text = location.pathname.slice(start.length);
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // not the name of a board, as the server will say
  }
}

function pageOf() {
  if (name === null) return new Overview(turnTo);
  return collection === null ? new BoardPage(name, turnTo, missing, () => live.now()) : new CollectionPage(name, turnTo, () => live.now());
}

takeToken();
const collection = nameAfter("/collections/");
const name = collection ?? nameAfter("/boards/");
const page = pageOf();
const live = new Live(() => page.look(), refused);
document.title = name === null ? "Boards – steadyrank" : `${name} – steadyrank`;
if (name !== null) {
  say(byId("here"), name);
  show(byId("where"), true);
}
byId("login-form").addEventListener("submit", logIn);
byId("logout").addEventListener("click", logOut);
live.start();
