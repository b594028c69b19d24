/** The page of one board. */

import * as actions from "./actions.js";
import { AllItems } from "./all.js";
import { ask, path, Refusal, Away } from "./api.js";
import { Chart } from "./chart.js";
import { Choosing } from "./choosing.js";
import { byId, make, say, setAll, show } from "./dom.js";
import { headlineFacts, limits, showFacts, showLimits } from "./facts.js";
import { showFeatures } from "./features.js";
import { showFewOutcomes } from "./few_outcomes.js";
import { ItemTable } from "./items.js";
import { showBands, showLabels, showPoints } from "./rows.js";
import { showRules } from "./rules.js";
import { showSaved } from "./saved.js";
import { listedIn, Segments, UnheardIn } from "./segments.js";
import { showSilenced, unheard } from "./silenced.js";
import { count, many, percent, sentence, stretch, unanswered, verdict } from "./words.js";

const NO_ADMIN = "Estimates, regimes and actions need a key with the scope admin.";

/** The contents of a board's page, refreshed once a second by one request. */
export class BoardPage {
  #name;
  #turnTo;
  #missing;
  #again;
  #watch = null;
  #chart;
  #choosing;
  #segments;
  #unheardIn;
  #list;
  #diverging;
  #all;

  constructor(name, turnTo, missing, again) {
    this.#name = name;
    this.#turnTo = turnTo;
    this.#missing = missing;
    this.#again = again;
    say(byId("board-title"), name);
    const act = (item) => this.#do(item.active ? actions.retire(name, item.item) : actions.reinstate(name, item.item));
    this.#list = new ItemTable(byId("list-head"), byId("list-rows"), act, true);
    this.#diverging = new ItemTable(byId("diverging-head"), byId("diverging-rows"), act);
    this.#all = new AllItems(name, act);
    this.#chart = new Chart(byId("chart"), (start, end) => this.#choosing.fill(start, end), (text) => this.#read(text));
    this.#choosing = new Choosing((interval) => this.#chosen(interval));
    this.#segments = new Segments(() => this.#watch && this.#showItems(this.#watch));
    this.#unheardIn = new UnheardIn(() => this.#again());
    this.#listen();
    this.#read("");
    actions.prepare();
    legend();
  }

  #listen() {
    for (const word of ["fraud", "honest"]) {
      byId(`as-${word}`).addEventListener("click", () => this.#label(word));
    }
    byId("headline-act").addEventListener("click", () => this.#choose(this.#watch.bands.at(-1)));
    byId("export").addEventListener("click", () => this.#do(actions.save(this.#name, this.#watch.events)));
    byId("points").addEventListener("toggle", () => this.#watch && showPoints(this.#watch));
  }

  /** Choose the rounds of a regime, and scroll to the form for labels. */
  #choose({ start, end }) {
    this.#choosing.fill(Math.max(start, this.#watch.first_round), end);
    byId("labels-title").scrollIntoView({ block: "center" });
    byId("as-fraud").focus({ preventScroll: true });
  }

  async #label(word) {
    if (await this.#do(actions.label(this.#name, this.#choosing.interval, word))) this.#choosing.fill("", "");
  }

  async #do(action) {
    const done = await action;
    if (done) {
      this.#again();
      this.#all.again();
    }
    return done;
  }

  /** Request the state of the board, and show it. */
  async look() {
    try {
      const watch = await ask("GET", path(this.#name, "watch") + this.#unheardIn.query);
      this.#turnTo("board");
      this.#show(watch);
    } catch (error) {
      if (error instanceof Refusal && error.code === 403) await this.#lookLess(error);
      else if (error instanceof Refusal && this.#unheardIn.forget()) await this.look(); // its segment no longer exists
      else if (error instanceof Away) await this.#lookParked(error);
      else throw error;
    }
  }

  /** For keys that are not for admins: counts and settings. */
  async #lookLess(refusal) {
    const board = await ask("GET", path(this.#name));
    this.#turnTo("board");
    say(byId("reduced"), `${sentence(refusal.message)} ${NO_ADMIN}`);
    show(byId("reduced"), true);
    show(byId("headline"), false);
    for (const part of document.querySelectorAll("[data-watched]")) show(part, false);
    setAll(byId("export"), { disabled: "", title: NO_ADMIN, "aria-describedby": "reduced" });
    this.#showCounts({ board, view: null });
  }

  /** Show why a board is parked, rather than just unavailable. */
  async #lookParked(away) {
    const { parked } = await ask("GET", "boards?limit=1");
    const found = parked.find(({ board }) => board === this.#name);
    if (found === undefined) throw away;
    this.#missing("This board is parked", `${sentence(found.why)} Other boards are served as usual.`);
    throw away;
  }

  #showCounts(watch) {
    const { board } = watch;
    say(byId("board-kind"), `${board.learner} · ${many(board.items, "item")} · lists of ${board.length}`);
    showFacts(byId("facts"), headlineFacts(watch));
    showLimits(byId("limits"), limits(watch));
  }

  #show(watch) {
    this.#watch = watch;
    this.#showCounts(watch);
    this.#showHeadline(watch);
    const empty = watch.timeline.points.length === 0;
    show(byId("time-empty"), empty);
    show(byId("chart-box"), !empty);
    this.#chart.update(watch);
    this.#choosing.update(watch);
    showBands(watch, (band) => this.#choose(band));
    showLabels(watch, (label) => this.#do(actions.takeBack(this.#name, label)));
    showPoints(watch);
    showFeatures(watch);
    showFewOutcomes(watch);
    showRules(watch);
    showSaved(watch);
    this.#unheardIn.offer(watch);
    showSilenced(
      watch,
      (one, word) => this.#do(actions.labelClient(this.#name, one, word)),
      (one) => this.#do(actions.takeBackClient(this.#name, one)),
    );
    this.#showItems(watch);
  }

  #showHeadline(watch) {
    const said = verdict(watch);
    byId("headline").className = `headline ${said.kind}`;
    say(byId("headline-sign"), said.sign);
    say(byId("headline-title"), said.title);
    say(byId("headline-text"), said.text);
    show(byId("headline-act"), said.kind === "no" && !watch.segments); // rounds span all segments
    show(byId("stale"), watch.stale);
    say(byId("silent"), unanswered(watch.board.silence));
    show(byId("silent"), watch.board.silence.alarming);
    say(byId("unheard"), unheard(watch));
    show(byId("unheard"), unheard(watch) !== "");
    show(byId("headline"), true);
    document.title = `${said.kind === "no" ? "▲ " : ""}${this.#name} – steadyrank`;
  }

  #showItems(watch) {
    const { diverging, view, board } = watch;
    const segment = this.#segments.choose(watch);
    const { list } = segment ?? watch;
    const shares = [...list, ...diverging].flatMap((item) => [item.rate, item.estimate ?? 0, item.high ?? 0]);
    const most = Math.min(1, Math.max(0.05, ...shares) * 1.05);
    say(byId("list-say"), waiting(board, list) + (segment === null ? listed(board, view) : listedIn(segment)));
    say(byId("diverging-say"), divergence(watch));
    show(byId("diverging-box"), diverging.length > 0);
    this.#list.update(list, most);
    this.#diverging.update(diverging, most);
  }

  #chosen(interval) {
    this.#chart.choose(interval);
    for (const id of ["as-fraud", "as-honest"]) byId(id).disabled = interval === null;
  }

  #read(text) {
    say(byId("readout"), text || "Point at the lines to read them; drag to choose rounds.");
  }
}

/** Why no item has a look although lists were answered. */
function waiting(board, list) {
  const wait = board.settle ?? board.lifetime;
  if (wait === 0 || board.answers === 0 || list.some((item) => item.looks > 0)) return "";
  return `${many(board.answers, "answer")} came, none is learnt yet: each waits until ${stretch(wait)} after its list was shown (settle). `;
}

function listed(board, view) {
  if (view === null) return `What users get now. ${board.learner} shows no estimates.`;
  if (visitorsDiffer(board)) return "What visitors get now of whom nothing is known: lists are each visitor's own. Estimates are for the mean of all visitors.";
  if (view.current === view.trusted) return "What users get now, with estimates of the trusted regime.";
  return `What users get now: items of regimes ${view.trusted} and ${view.current}. Estimates are of the trusted regime ${view.trusted}.`;
}

/** Whether the board has visit features, so that there is no common list for everybody. */
function visitorsDiffer(board) {
  return Boolean(board.segments) || Object.keys(board.features?.visits ?? {}).length > 0;
}

function divergence(watch) {
  if (watch.view === null) return `${watch.board.learner} shows no estimates to compare plain rates with.`;
  if (visitorsDiffer(watch.board)) return "Plain rates are of the visitors whom an item was shown to, estimates of the mean of all: they are not compared.";
  const number = watch.diverging.length;
  if (number === 0) return "Every plain click rate lies within its estimate's interval.";
  const first = watch.diverging[0];
  const side = first.rate > first.high ? "above" : "below";
  const more = number === 20 ? "The 20 farthest; " : `${count(number)} ${number === 1 ? "item" : "items"}; `;
  return `${more}${first.item} is farthest: ${percent(first.rate)} lies ${side} what the trusted regime makes likely.`;
}

function legend() {
  const rows = [["trusted", "trusted regime"], ["doubted", "regime not trusted"], ["fraud", "labelled fraud"], ["honest", "labelled honest"]];
  byId("legend").append(...rows.map(([kind, text]) => make("li", {}, make("span", { class: `swatch ${kind}`, "aria-hidden": "true" }), text)));
}
