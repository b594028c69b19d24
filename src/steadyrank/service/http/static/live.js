/** Polling: pauses while the page is hidden, backs off while the server is unavailable, and recovers by itself. */

import { Away } from "./api.js";
import { byId, say, show } from "./dom.js";
import { moment } from "./words.js";

const EVERY = 1000;
const LONGEST = 15_000;

/** The requests of one page, one at a time. */
export class Live {
  #look;
  #refused;
  #timer = null;
  #busy = false;
  #again = false;
  #running = false;
  #pause = EVERY;
  #seen = null;

  /** `look` requests and shows the state; `refused` is called with refusals. */
  constructor(look, refused) {
    this.#look = look;
    this.#refused = refused;
    document.addEventListener("visibilitychange", () => this.#visible());
  }

  /** Start, with an immediate request. */
  start() {
    this.#running = true;
    this.now();
  }

  /** Stop until started again. */
  stop() {
    this.#running = false;
    clearTimeout(this.#timer);
    show(byId("pulse"), false);
  }

  /** Request at once, or as soon as the present request has ended. */
  now() {
    clearTimeout(this.#timer);
    if (!this.#running || document.hidden) return;
    if (this.#busy) this.#again = true;
    else this.#ask();
  }

  async #ask() {
    this.#busy = true;
    try {
      await this.#look();
      this.#here();
    } catch (error) {
      this.#failed(error);
    } finally {
      this.#busy = false;
      if (this.#running && !document.hidden) {
        this.#timer = setTimeout(() => this.now(), this.#again ? 0 : this.#pause);
        this.#again = false;
      }
    }
  }

  #here() {
    this.#pause = EVERY;
    this.#seen = Date.now() / 1000;
    this.#tell("live", "live");
    show(byId("notice"), false);
  }

  #failed(error) {
    this.#pause = Math.min(2 * this.#pause, LONGEST);
    this.#tell("away", "not live");
    if (!(error instanceof Away)) {
      this.#refused(error);
      return;
    }
    const old = this.#seen === null ? "" : ` What you see is from ${moment(this.#seen)}.`;
    say(byId("notice"), `${error.message}${old} Trying again.`);
    show(byId("notice"), true);
  }

  #tell(kind, words) {
    const pulse = byId("pulse");
    pulse.className = `pulse ${kind}`;
    say(pulse, words);
    show(pulse, this.#running);
  }

  #visible() {
    if (document.hidden) clearTimeout(this.#timer);
    else this.now();
  }
}
