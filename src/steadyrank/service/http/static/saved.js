/** What distrusting feedback has saved, and the list by plain counts beside ours. */

import { byId, make, match, say, show } from "./dom.js";
import { count, many, percent } from "./words.js";

/** The clicks that people would have lost, and three lists side by side. */
export function showSaved({ saved, list, board }) {
  say(byId("saved-say"), saved === null ? untold(board) : told(saved));
  show(byId("saved-box"), saved !== null && saved.rounds > 0);
  if (saved === null || saved.rounds === 0) return;
  const create = () => make("tr", {}, make("th", { scope: "row" }), ...Array.from({ length: 3 }, () => make("td")));
  match(byId("saved-rows"), list, (_, place) => place, create, (row, item, place) => {
    const names = [item.item, saved.plain[place] ?? "", saved.believed[place] ?? ""];
    say(row.children[0], count(place + 1));
    names.forEach((name, column) => {
      const cell = row.children[column + 1];
      const other = !list.some((each) => each.item === name);
      say(cell, name && other ? `▲ ${name}` : name);
      cell.className = other ? "no" : "";
    });
  });
}

function untold({ learner, segments }) {
  return segments ? "Not known of boards with segments, whose regimes are each segment's own." : `${learner} does not tell regimes apart.`;
}

function told({ rounds, people, lost }) {
  if (rounds === 0) return "Nothing so far: no stretch of feedback was doubted.";
  const [low, high] = [lost.low, lost.high].map((number) => count(Math.round(number)));
  return (
    `If the feedback of ${many(rounds, "round")} that is not trusted had been believed, people would have lost about ` +
    `${many(Math.round(lost.value), "click")} (95 % interval ${low} to ${high}). About ${percent(people)} of these visits were people's. ` +
    "▲ marks what ours does not show."
  );
}
