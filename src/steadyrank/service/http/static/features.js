/** The features of items and visitors, and what they explain. */

import { byId, draw, make, match, say, setAll, show } from "./dom.js";
import { count } from "./words.js";

const WIDE = 110; // width of the picture of a row
const LEAST = 0.02; // smaller effects count as none

/** The share that features explain, and the strongest effects; empty on a board without any. */
export function showFeatures({ features }) {
  show(byId("features"), features !== null);
  if (features === null) return;
  const rows = features.strongest.filter(({ effect }) => Math.abs(effect) >= LEAST);
  say(byId("features-say"), said(features, rows.length));
  show(byId("features-box"), rows.length > 0);
  const most = Math.max(...rows.map(({ effect }) => Math.abs(effect)));
  match(byId("feature-rows"), rows, (row) => row.feature, create, (node, row) => {
    const [words, odds, picture] = node.children;
    say(words, row.says);
    say(odds, `× ${row.odds.toFixed(2)}`);
    const long = (Math.abs(row.effect) / most) * (WIDE / 2);
    setAll(picture.querySelector("rect"), { x: row.effect < 0 ? WIDE / 2 - long : WIDE / 2, width: long });
  });
}

function said({ says, count: all, strongest }, shown) {
  if (strongest.length === 0 || shown === 0) return says;
  const which = shown < all ? `The strongest ${count(shown)} of ${count(all)}: each` : "Each";
  return `${says} ${which} multiplies the odds of a click by so much where it is a standard deviation above its mean.`;
}

function create() {
  const line = draw("line", { x1: WIDE / 2, x2: WIDE / 2, y1: 0, y2: 16 });
  const picture = draw("svg", { width: WIDE, height: 16 }, draw("rect", { class: "interval", y: 4, height: 8 }), line);
  const words = make("th", { scope: "row", class: "words" });
  return make("tr", {}, words, make("td", { class: "right" }), make("td", { class: "picture", "aria-hidden": "true" }, picture));
}
