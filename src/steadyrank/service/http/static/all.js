/** Every item of a board, loaded on request, since there may be very many. */

import { ask, Away, path, Refusal } from "./api.js";
import { byId, say, show } from "./dom.js";
import { ItemTable } from "./items.js";
import { many, sentence } from "./words.js";

const PAGE = 50;

/** The table of all items with its filter. */
export class AllItems {
  #board;
  #table;
  #items = null;
  #shown = PAGE;

  constructor(board, act) {
    this.#board = board;
    this.#table = new ItemTable(byId("all-head"), byId("all-rows"), act);
    byId("all").addEventListener("toggle", () => this.again());
    byId("all-again").addEventListener("click", () => this.again());
    byId("item-filter").addEventListener("input", () => this.#showFirst(PAGE));
    byId("all-more").addEventListener("click", () => this.#showFirst(this.#shown + PAGE));
  }

  /** Load the items if the table is open. */
  async again() {
    if (!byId("all").open) return;
    say(byId("all-say"), "Reading…");
    try {
      this.#items = trusted(await ask("GET", path(this.#board, "state")));
      this.#items.sort((one, other) => (other.estimate ?? other.rate) - (one.estimate ?? one.rate));
      this.#show();
    } catch (error) {
      if (!(error instanceof Refusal || error instanceof Away)) throw error;
      say(byId("all-say"), sentence(error.message));
    }
  }

  #showFirst(number) {
    this.#shown = number;
    this.#show();
  }

  #show() {
    if (this.#items === null) return;
    const wanted = byId("item-filter").value.trim().toLowerCase();
    const fit = this.#items.filter((item) => item.item.toLowerCase().includes(wanted));
    const shown = fit.slice(0, this.#shown);
    const most = Math.max(0.05, ...shown.flatMap((item) => [item.rate, item.estimate ?? 0]));
    this.#table.update(shown, Math.min(1, 1.05 * most));
    const part = shown.length < fit.length ? `the first ${shown.length} of ` : "";
    say(byId("all-say"), `${part}${many(fit.length, "item")}${wanted === "" ? "" : " with this in the name"}, best first`);
    show(byId("all-more"), shown.length < fit.length);
  }
}

/** Items with their estimates in the trusted regime; only those of the list have intervals. */
function trusted({ items, view }) {
  const estimates = view?.regimes.find((regime) => regime.number === view.trusted).estimates;
  return items.map((item, slot) => ({ ...item, estimate: estimates?.[slot] ?? null, low: null, high: null }));
}
