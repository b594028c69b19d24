/** What the rules of a board cost, together and individually. */

import { byId, make, match, say, show } from "./dom.js";
import { amount } from "./words.js";

/** A board's rules with their cost in clicks, and in value if that is the goal; empty if it has none. */
export function showRules({ rules }) {
  show(byId("rules-card"), rules !== null);
  if (rules === null) return;
  say(byId("rules-say"), told(rules));
  show(byId("rules-box"), rules.each.length > 0);
  byId("rules-box").classList.toggle("valued", rules.each.some(({ value }) => value));
  const right = (kind = "") => make("td", { class: `right ${kind}` });
  const create = () => make("tr", {}, make("td"), right(), right(), right("worth"), right("worth"));
  match(byId("rules-rows"), rules.each, ({ rule }) => rule, create, (row, { rule, cost, value }) => {
    const known = !rules.unkept.some((label) => label.startsWith(rule));
    say(row.children[0], known ? rule : `▲ ${rule}, not kept`);
    say(row.children[1], tenths(cost.value));
    say(row.children[2], `${tenths(cost.low)} to ${tenths(cost.high)}`);
    say(row.children[3], value ? amount(value.value) : "");
    say(row.children[4], value ? `${amount(value.low)} to ${amount(value.high)}` : "");
  });
}

function told({ all, value, refused }) {
  if (refused !== null) return `No list of all items can be made: ${refused}.`;
  const [low, high] = [all.low, all.high].map(tenths);
  const money = value ? `, and a value of ${amount(value.value)} (${amount(value.low)} to ${amount(value.high)})` : "";
  return (
    `All rules together cost about ${tenths(all.value)} clicks in 1,000 lists (95 % interval ${low} to ${high})${money}, ` +
    "by the estimates of the trusted regime. Each rule's cost is what the list would gain without it alone."
  );
}

function tenths(number) {
  return number.toFixed(1);
}
