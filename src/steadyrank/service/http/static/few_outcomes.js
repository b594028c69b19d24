/** Items with rising clicks and too few outcomes. */

import { byId, make, match, say, show } from "./dom.js";
import { count, many, rounds } from "./words.js";

/** These items with the expected numbers; empty if there are none. */
export function showFewOutcomes({ few_outcomes: items }) {
  show(byId("few-outcomes-card"), items.length > 0);
  const were = items.length === 1 ? "was" : "were";
  say(byId("few-outcomes-say"), `${many(items.length, "item")} ${were} clicked more than before, and fewer of these clicks led to an outcome than is usual. False clicks look like this.`);
  const create = () => make("tr", {}, make("th", { scope: "row" }), ...Array.from({ length: 5 }, () => make("td", { class: "right" })));
  match(byId("few-outcomes-rows"), items, ({ item, start }) => `${start} ${item}`, create, (row, one) => {
    const parts = [
      one.item,
      rounds(one.start, one.end),
      count(one.clicks),
      count(Math.round(one.expected_clicks)),
      count(one.outcomes),
      count(Math.round(one.expected_outcomes)),
    ];
    parts.forEach((text, place) => say(row.children[place], text));
  });
}
