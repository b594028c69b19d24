/** The page of a collection: queries whose items are suddenly clicked far more, and those with the most visits. */

import { ask, collectionPath } from "./api.js";
import { byId, make, match, say, show } from "./dom.js";
import { count, many, percent } from "./words.js";

/** One collection, as `watch` has it. */
export class CollectionPage {
  #name;
  #turnTo;

  constructor(name, turnTo) {
    this.#name = name;
    this.#turnTo = turnTo;
    say(byId("collection-title"), name);
  }

  /** Ask, and show what came. */
  async look() {
    const watch = await ask("GET", collectionPath(this.#name, "watch"));
    say(byId("collection-sum"), summary(watch));
    showHeadline(watch);
    showAlarms(watch.alarms);
    showQueries(watch.queries);
    this.#turnTo("collection");
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
  match(byId("alarm-rows"), surges, keyOf, () => row(5), (node, surge) => {
    const now = `${count(Math.round(surge.clicks))} of ${count(Math.round(surge.looks))}`;
    const texts = [surge.query ?? surge.id, surge.item, count(surge.alarm), count(surge.noticed), percent(surge.before), now];
    texts.forEach((text, place) => say(node.children[place], text));
  });
}

function showQueries(queries) {
  show(byId("queries-box"), queries.length > 0);
  show(byId("no-queries"), queries.length === 0);
  match(byId("query-rows"), queries, ({ id }) => id, () => row(3), (node, { id, query, visits, clicked, gain }) => {
    const share = percent(visits > 0 ? clicked / visits : null);
    const texts = [query ?? id, count(Math.round(visits)), share, `${signed(gain.value)} (${signed(gain.low)} to ${signed(gain.high)})`];
    texts.forEach((text, place) => say(node.children[place], text));
  });
}

function row(cells) {
  return make("tr", {}, make("th", { scope: "row" }), ...Array.from({ length: cells }, () => make("td", { class: "right" })));
}

function signed(value) {
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;
}
