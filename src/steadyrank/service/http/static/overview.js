/** All boards at a glance. */

import { ask, path, Refusal } from "./api.js";
import { byId, draw, make, match, say, show } from "./dom.js";
import { sketch } from "./sketch.js";
import { count, many, percent, verdict } from "./words.js";

const AT_ONCE = 4; // boards refreshed in detail per second
const FILTER_FROM = 9; // boards
const RECENT = 5000; // milliseconds
const PAGE = 200; // boards shown per page
const MOST = 1000; // boards per answer of the server

/** The page of all boards, with a card for each. */
export class Overview {
  #turnTo;
  #boards = [];
  #wanted = PAGE; // boards
  #more = false; // whether there are others
  #watched = new Map(); // by board: its state, at which counts, and when
  #closed = new Set(); // boards whose details the key cannot access

  constructor(turnTo) {
    this.#turnTo = turnTo;
    byId("board-filter").addEventListener("input", () => this.#show());
    byId("more-boards").addEventListener("click", () => (this.#wanted = Math.min(this.#wanted + PAGE, MOST)));
  }

  /** Request all boards, and the details of a few that have changed. */
  async look() {
    const { boards, parked, next } = await ask("GET", `boards?limit=${this.#wanted}`);
    const { collections } = await ask("GET", `collections?limit=${MOST}`);
    this.#boards = boards;
    this.#more = next !== null;
    await Promise.all(this.#next().map((board) => this.#watch(board)));
    this.#turnTo("overview");
    this.#show();
    showCollections(collections);
    this.#showParked(parked);
  }

  /** Boards never loaded, changed since, or not loaded for a while; the longest ago first. */
  #next() {
    const seen = (board) => this.#watched.get(board.board);
    const recent = performance.now() - RECENT;
    const known = (board) => seen(board)?.mark === markOf(board) && seen(board).at > recent;
    const due = this.#boards.filter((board) => !this.#closed.has(board.board) && !known(board));
    due.sort((one, other) => (seen(one)?.at ?? 0) - (seen(other)?.at ?? 0));
    return due.slice(0, AT_ONCE);
  }

  async #watch(board) {
    try {
      const watch = await ask("GET", path(board.board, "watch"));
      this.#watched.set(board.board, { watch, mark: markOf(board), at: performance.now() });
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      if (error.code === 403) this.#closed.add(board.board);
    }
  }

  #show() {
    const wanted = byId("board-filter").value.trim().toLowerCase();
    const shown = this.#boards.filter((board) => board.board.toLowerCase().includes(wanted));
    show(byId("board-filter-row"), this.#boards.length >= FILTER_FROM);
    show(byId("no-boards"), this.#boards.length === 0);
    const some = shown.length === this.#boards.length ? "" : `${count(shown.length)} of `;
    const all = this.#more ? `the first ${many(this.#boards.length, "board")}` : many(this.#boards.length, "board");
    say(byId("overview-sum"), this.#boards.length === 0 ? "" : `${some}${all}`);
    show(byId("more-boards"), this.#more && this.#wanted < MOST);
    show(byId("beyond"), this.#more && this.#wanted === MOST);
    match(byId("cards"), shown, (board) => board.board, card, (node, board) => this.#update(node, board));
  }

  #update(node, board) {
    const watch = this.#watched.get(board.board)?.watch ?? null;
    const closed = this.#closed.has(board.board);
    const facts = {
      items: count(board.items),
      impressions: count(board.impressions),
      clicked: percent(board.answers + board.unanswered === 0 ? null : board.clicks / (board.answers + board.unanswered)),
      "corrupted, estimated": watch?.view ? percent(watch.view.corrupted) : "–",
    };
    for (const [name, text] of Object.entries(facts)) say(node.querySelector(`[data-fact="${name}"]`), text);
    say(node.querySelector(".kind"), board.learner);
    const said = watch === null ? { kind: "none", sign: "○", title: "", text: "" } : verdict(watch);
    const words = closed ? "An admin key sees more." : said.title;
    node.querySelector(".state").className = `state ${said.kind}`;
    say(node.querySelector(".state"), watch === null && !closed ? "…" : `${said.sign} ${words}`);
    if (watch !== null) sketch(node.querySelector("svg"), watch);
  }

  #showParked(parked) {
    show(byId("parked"), parked.length > 0);
    const words = ({ board, why }) => `${board}: ${why}`;
    match(byId("parked-list"), parked, ({ board }) => board, () => make("li"), (node, one) => say(node, words(one)));
  }
}

function showCollections(collections) {
  show(byId("collections"), collections.length > 0);
  const create = ({ collection }) => {
    const link = make("a", { href: `/collections/${encodeURIComponent(collection)}` }, collection);
    return make("li", {}, link, make("span", { class: "soft" }));
  };
  match(byId("collections-list"), collections, ({ collection }) => collection, create, (node, { queries, impressions }) => {
    say(node.lastChild, ` ${many(queries, "query", "queries")}, ${many(impressions, "list")} shown`);
  });
}

/** Changes with everything shown on a card, except for labels and replays. */
function markOf(board) {
  return `${board.impressions} ${board.answers} ${board.unanswered} ${board.rounds} ${board.items}`;
}

function card(board) {
  const link = make("a", { href: `/boards/${encodeURIComponent(board.board)}` }, board.board);
  const names = ["items", "impressions", "clicked", "corrupted, estimated"];
  const facts = names.map((name) => make("div", {}, make("dt", {}, name), make("dd", { "data-fact": name })));
  const head = make("div", { class: "card-head" }, make("h2", {}, link), make("span", { class: "kind soft" }));
  const svg = draw("svg", { class: "sketch", "aria-hidden": "true", viewBox: "0 0 300 56", preserveAspectRatio: "none" });
  return make("li", { class: "card" }, head, make("p", { class: "state none" }), svg, make("dl", {}, ...facts));
}
