/** The page of a collection: surges of clicks, the busiest queries, and the items of one query. */

import { ask, collectionPath, Refusal } from "./api.js";
import { byId, make, match, say, show } from "./dom.js";
import { count, many, percent, range } from "./words.js";

const QUERY = /^#query-([0-9a-f]{14})$/; // in the address, which names a query by its id, never by its text
const ORDERS = {
  visits: () => 0, // already sorted by the server
  gained: (one, other) => other.gain.value - one.gain.value,
  lost: (one, other) => one.gain.value - other.gain.value,
};

/** The contents of a collection's page. */
export class CollectionPage {
  #name;
  #turnTo;

  #queries = [];
  #chosen = null; // the query whose items are shown

  constructor(name, turnTo, now) {
    this.#name = name;
    this.#turnTo = turnTo;
    say(byId("collection-title"), name);
    byId("query-order").addEventListener("change", () => showQueries(this.#queries));
    addEventListener("hashchange", now);
  }

  /** Request the state, and show it. */
  async look() {
    const watch = await ask("GET", collectionPath(this.#name, "watch"));
    say(byId("collection-sum"), summary(watch));
    showHeadline(watch);
    showAlarms(watch.alarms);
    this.#queries = watch.queries;
    showQueries(watch.queries);
    await this.#lookAtQuery();
    this.#turnTo("collection");
    this.#goToQuery();
  }

  /** Show the items of the query in the address, if any. */
  async #lookAtQuery() {
    const id = QUERY.exec(location.hash)?.[1] ?? null;
    show(byId("query-box"), id !== null);
    if (id === null) return;
    try {
      showQuery(await ask("POST", collectionPath(this.#name, "query"), { id }));
    } catch (error) {
      if (!(error instanceof Refusal) || error.code !== 404) throw error;
      showNoQuery(id);
    }
  }

  /** Scroll to the items of a query that was just chosen. */
  #goToQuery() {
    const id = QUERY.exec(location.hash)?.[1] ?? null;
    if (id !== null && id !== this.#chosen) byId("query-title").focus();
    this.#chosen = id;
  }
}

function summary({ collection, guard }) {
  const { queries, pairs, impressions, answers } = collection;
  const seen = `${many(queries, "query", "queries")}, ${many(pairs, "item")} looked at in them`;
  return `${seen}; ${many(impressions, "list")} shown, ${count(answers)} answered; ${many(guard.count, "client")} refused`;
}

function showHeadline({ alarms }) {
  const last = alarms.at(-1);
  byId("collection-headline").className = `headline ${last === undefined ? "yes" : "no"}`;
  say(byId("collection-sign"), last === undefined ? "✓" : "▲");
  const items = many(last?.surges.length ?? 0, "item");
  const where = `${items} in ${many(last?.queries ?? 0, "query", "queries")}, since round ${count(last?.first ?? 0)}.`;
  say(byId("collection-verdict"), last === undefined ? "No query has an item that is suddenly clicked far more." : `Suddenly clicked far more, most lately: ${where}`);
}

function showAlarms(alarms) {
  const surges = alarms.flatMap((alarm) => alarm.surges.map((surge) => ({ ...surge, alarm: alarm.number }))).toReversed();
  show(byId("alarms-box"), surges.length > 0);
  const keyOf = (surge) => `${surge.alarm} ${surge.id} ${surge.item} ${surge.noticed}`;
  match(byId("alarm-rows"), surges, keyOf, ({ id }) => row(5, id), (node, surge) => {
    const now = `${count(Math.round(surge.clicks))} of ${count(Math.round(surge.looks))}`;
    fillRow(node, [surge.query ?? surge.id, surge.item, count(surge.alarm), count(surge.noticed), percent(surge.before), now]);
  });
}

function showQueries(queries) {
  show(byId("queries-box"), queries.length > 0);
  show(byId("no-queries"), queries.length === 0);
  show(byId("query-order-row"), queries.length > 1);
  const ordered = queries.toSorted(ORDERS[byId("query-order").value]);
  match(byId("query-rows"), ordered, ({ id }) => id, ({ id }) => row(3, id), (node, { id, query, visits, clicked, gain }) => {
    const share = percent(visits > 0 ? clicked / visits : null);
    fillRow(node, [query ?? id, count(Math.round(visits)), share, difference(gain)]);
  });
}

function showQuery({ id, query, visits, clicked, gain, items }) {
  say(byId("query-title"), query ?? id);
  const seen = `${many(Math.round(visits), "visit")}, ${count(Math.round(clicked))} with a click`;
  say(byId("query-sum"), `${seen}; clicks a visit against the engine: ${difference(gain)}.`);
  show(byId("query-items-box"), true);
  match(byId("query-items"), items, ({ item }) => item, () => row(5), (node, { item, engine, ours, looks, clicks, ...about }) => {
    const rate = `${percent(about.estimate)} (${range(about.low, about.high)})`;
    fillRow(node, [item, ours === null ? "–" : count(ours), count(engine), count(Math.round(looks)), count(Math.round(clicks)), rate]);
  });
}

function showNoQuery(id) {
  say(byId("query-title"), id);
  say(byId("query-sum"), "This query is not remembered: it was forgotten, or had few visits.");
  show(byId("query-items-box"), false);
}

/** A row; its name links to the query, if it has the id of one. */
function row(cells, id = null) {
  const name = id === null ? [] : [make("a", { href: `#query-${id}` })];
  return make("tr", {}, make("th", { scope: "row" }, ...name), ...Array.from({ length: cells }, () => make("td", { class: "right" })));
}

function fillRow(node, texts) {
  texts.forEach((text, place) => {
    const cell = node.children[place];
    say(cell.firstElementChild ?? cell, text);
  });
}

function difference({ value, low, high }) {
  return `${signed(value)} (${signed(low)} to ${signed(high)})`;
}

function signed(value) {
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;
}
