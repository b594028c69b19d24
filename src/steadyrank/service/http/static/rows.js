/** The tables below the chart: regimes, labels, and points of the timeline. */

import { byId, make, match, say, setAll, show } from "./dom.js";
import { count, moment, rounds, timeOf } from "./words.js";

/** Regimes with their rounds, latest first; a button chooses the rounds for a label. */
export function showBands(watch, choose) {
  const { bands, view, timeline } = watch;
  show(byId("regimes-box"), bands.length > 0 && view !== null);
  say(byId("regimes-say"), said(watch));
  const rows = view === null ? [] : bands.toReversed();
  match(byId("band-rows"), rows, (band) => band.start, () => buttonRow("Label…", choose), (row, band) => {
    row.about = band;
    const [name, range, last] = row.children;
    say(name, `${band.regime} ${band.trusted ? "trusted" : "not trusted"}`);
    name.className = band.trusted ? "yes" : "no";
    say(range.firstChild, rounds(band.start, band.end));
    say(range.lastChild, `from ${moment(timeOf(timeline.points, band.start))}`);
    setAll(last.firstChild, { "aria-label": `Label rounds ${rounds(band.start, band.end)} of regime ${band.regime}` });
  });
}

function said({ board, view }) {
  if (view === null) return `${board.learner} does not tell regimes apart.`;
  if (view.n_changes === 0) return "One so far. A change that many items show together opens another.";
  return "Stretches of rounds with one click behaviour. The longest regime is trusted.";
}

/** Labels in force, latest first; a button removes one. */
export function showLabels(watch, takeBack) {
  const { labels } = watch;
  show(byId("labels-box"), labels.length > 0);
  say(byId("labels-say"), labels.length === 0 ? "No labels yet. Your word on an interval overrules the learner's." : "Where labels overlap, the later one counts.");
  match(byId("label-rows"), labels.toReversed(), (label) => label.number, () => buttonRow("Take back…", takeBack), (row, label) => {
    row.about = label;
    const [name, range, last] = row.children;
    say(name, `${label.number} ${label.label}`);
    name.className = label.label;
    say(range.firstChild, rounds(label.start, label.end));
    say(range.lastChild, `from ${moment(timeOf(watch.timeline.points, label.start))}`);
    const early = label.start < watch.first_round;
    setAll(last.firstChild, { "aria-label": `Take back label ${label.number}`, title: early ? "These rounds are no longer kept." : "" });
    last.firstChild.disabled = early;
  });
}

function buttonRow(word, act) {
  const button = make("button", { type: "button", class: "small" }, word);
  const range = make("td", { class: "right" }, make("span"), make("small"));
  const row = make("tr", {}, make("th", { scope: "row" }), range, make("td", {}, button));
  button.addEventListener("click", () => act(row.about));
  return row;
}

/** Every point of the timeline, latest first; only while the table is open. */
export function showPoints(watch) {
  if (!byId("points").open) return;
  const { points, size } = watch.timeline;
  const create = () => make("tr", {}, make("th", { scope: "row" }), ...Array.from({ length: 8 }, () => make("td")));
  match(byId("point-rows"), points.toReversed(), (point) => point.start, create, (row, point) => {
    const band = watch.bands.findLast((each) => each.start <= point.start);
    const end = Math.min(point.start + size - 1, Math.max(watch.board.rounds, point.start));
    const regime = band === undefined || watch.view === null ? "–" : `${band.regime} ${band.trusted ? "trusted" : "not trusted"}`;
    const numbers = [point.impressions, point.feedback, point.clicks, point.examined, point.rejected, point.fraud];
    const texts = [rounds(point.start, end), moment(point.time), regime, ...numbers.map(count)];
    texts.forEach((text, place) => say(row.children[place], text));
  });
}
