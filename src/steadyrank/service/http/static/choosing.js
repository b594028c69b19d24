/** Choose an interval of rounds: by number fields, by dragging on the chart, or by a band's button. */

import { byId, say } from "./dom.js";
import { count, many } from "./words.js";

/** Two number fields, validated. */
export class Choosing {
  #watch = null;
  #onChange;
  #start = byId("start");
  #end = byId("end");

  /** `onChange(interval)` is called with the choice, or null if it cannot be labelled. */
  constructor(onChange) {
    this.#onChange = onChange;
    this.#start.addEventListener("input", () => this.#changed());
    this.#end.addEventListener("input", () => this.#changed());
    byId("clear-interval").addEventListener("click", () => this.fill("", ""));
  }

  /** Put an interval into the fields. */
  fill(start, end) {
    this.#start.value = start;
    this.#end.value = end;
    this.#changed();
  }

  /** The chosen interval, or null. */
  get interval() {
    const [start, end] = [this.#start.valueAsNumber, this.#end.valueAsNumber];
    return this.#fault(start, end) === "" ? { start, end } : null;
  }

  /** Update the limits. */
  update(watch) {
    this.#watch = watch;
    this.#changed();
  }

  #changed() {
    const [start, end] = [this.#start.valueAsNumber, this.#end.valueAsNumber];
    const fault = this.#fault(start, end);
    say(byId("interval-say"), fault || `${many(end - start + 1, "round")} chosen.`);
    this.#onChange(this.interval);
  }

  /** What is wrong with an interval; empty if it is valid. */
  #fault(start, end) {
    if (this.#watch === null) return "Nothing to label yet.";
    const { first_round: first, board } = this.#watch;
    if (board.rounds < first) return "Nothing to label yet.";
    if (Number.isNaN(start) && Number.isNaN(end)) {
      return `Drag over the time line, choose a regime, or type rounds from ${count(first)} to ${count(board.rounds)}.`;
    }
    if (!Number.isInteger(start) || !Number.isInteger(end)) return "Give both rounds as whole numbers.";
    if (start > end) return "The interval ends before it starts.";
    if (start < first) return `The first round that can be labelled is ${count(first)}: what came before is no longer kept.`;
    return end > board.rounds ? `The latest round is ${count(board.rounds)}.` : "";
  }
}
