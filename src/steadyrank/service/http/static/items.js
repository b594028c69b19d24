/** Tables of items: plain click rate, estimate and interval. */

import { draw, make, match, say, setAll } from "./dom.js";
import { amount, count, percent, range } from "./words.js";

const WIDE = 110; // width of the picture of a row

/** Whether the plain click rate is outside the interval by more than one click. */
function diverges({ low, high, clicks, looks }) {
  return low !== null && looks > 0 && ((clicks + 1) / looks < low || (clicks - 1) / looks > high);
}

/** A table of items whose rows are updated in place. */
export class ItemTable {
  #head;
  #body;
  #act;
  #numbered;

  /** `act(item)` is called by a row's button; `numbered`: rows are places of a list. */
  constructor(head, body, act, numbered = false) {
    this.#head = head;
    this.#body = body;
    this.#act = act;
    this.#numbered = numbered;
    this.#head.append(make("tr", {}, ...this.#heads()));
  }

  #heads() {
    const heads = [make("th", { scope: "col" }, "item"), make("th", { scope: "col", class: "right" }, "plain rate")];
    heads.push(make("th", { scope: "col", class: "right learnt" }, "estimate", make("span", { class: "ranged" }, " (95 %)")));
    heads.push(make("th", { scope: "col", class: "picture learnt", "aria-hidden": "true" }));
    heads.push(make("th", { scope: "col", class: "right worth" }, "a click is worth", make("span", { class: "ranged" }, " (95 %)")));
    heads.push(make("th", { scope: "col" }, make("span", { class: "hidden" }, "action")));
    if (this.#numbered) heads.unshift(make("th", { scope: "col", class: "place" }, "place"));
    return heads;
  }

  /** Show items; `most`: the upper end of the pictures' scale. */
  update(items, most) {
    const learnt = items.some((item) => item.estimate !== null);
    const box = this.#head.closest(".scroll").classList;
    box.toggle("unlearnt", !learnt);
    box.toggle("valued", items.some((item) => item.worth)); // leaves no room for pictures
    box.toggle("bare", items.length > 0 && items.every((item) => item.low === null));
    match(this.#body, items, (item) => item.item, (item) => this.#row(item), (row, item, place) => this.#fill(row, item, place, most));
  }

  #row(item) {
    const button = make("button", { type: "button", class: "small" });
    button.addEventListener("click", () => this.#act(row.item));
    const name = make("th", { scope: "row", class: "name" }, make("span", { class: "text" }), make("span", { class: "soft tag" }));
    const number = (kind) => make("td", { class: `right ${kind}` }, make("span"), make("small"));
    const drawing = make("td", { class: "picture learnt", "aria-hidden": "true" }, picture());
    const cells = [name, number("plain"), number("learnt"), drawing, number("worth"), make("td", {}, button)];
    if (this.#numbered) cells.unshift(make("td", { class: "place" }));
    const row = make("tr", {}, ...cells);
    row.item = item;
    return row;
  }

  #fill(row, item, place, most) {
    row.item = item;
    const cells = [...row.children];
    if (this.#numbered) say(cells.shift(), String(place + 1));
    const [name, rate, estimate, drawing, worth, last] = cells;
    const odd = diverges(item);
    say(name.firstChild, item.item);
    setAll(name.firstChild, { title: item.item.length > 60 ? item.item : "" });
    say(name.lastChild, item.active ? "" : "retired");
    say(rate.firstChild, item.looks === 0 ? "–" : percent(item.rate));
    const invalid = item.invalid_clicks ? `, ${count(item.invalid_clicks)} invalid` : "";
    say(rate.lastChild, `${count(item.clicks)} of ${count(item.looks)}${invalid}`);
    rate.classList.toggle("odd", odd);
    say(estimate.firstChild, percent(item.estimate));
    say(estimate.lastChild, range(item.low, item.high));
    say(worth.firstChild, item.worth ? amount(item.worth.value) : "");
    say(worth.lastChild, item.worth ? `${amount(item.worth.low)} to ${amount(item.worth.high)}` : "");
    paint(drawing.firstChild, item, odd, most);
    const word = item.active ? "Retire" : "Reinstate";
    say(last.firstChild, word);
    setAll(last.firstChild, { "aria-label": `${word} ${item.item}` });
  }
}

function picture() {
  const parts = [draw("line", { class: "scale", x1: 3, x2: WIDE - 3, y1: 10, y2: 10 }), draw("rect", { class: "interval", y: 6, height: 8, rx: 2 })];
  parts.push(draw("line", { class: "estimate", y1: 3, y2: 17 }), draw("path", { class: "rate" }));
  return draw("svg", { width: WIDE, height: 20, viewBox: `0 0 ${WIDE} 20` }, ...parts);
}

/** Interval, estimate and plain rate on one scale; a rate outside the interval is a diamond. */
function paint(svg, item, odd, most) {
  const [, bar, tick, dot] = svg.children;
  const x = (share) => 4 + ((WIDE - 8) * Math.min(share, most)) / most;
  setAll(bar, item.low !== null ? { x: x(item.low), width: Math.max(x(item.high) - x(item.low), 1) } : { width: 0 });
  setAll(tick, { x1: x(item.estimate ?? 0), x2: x(item.estimate ?? 0), class: item.estimate === null ? "none" : "estimate" });
  const at = x(item.rate);
  const shape = odd ? `M${at - 5} 10L${at} 5L${at + 5} 10L${at} 15Z` : `M${at - 3.5} 10a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0Z`;
  setAll(dot, { d: item.looks === 0 ? "" : shape, class: odd ? "rate odd" : "rate" });
}
