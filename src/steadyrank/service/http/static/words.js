/** Numbers and states as text. */

import { doubted } from "./segments.js";

const whole = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat("en", { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

/** A count: 12,345; never -0. */
export function count(number) {
  return whole.format(number + 0);
}

/** A message of the server as a sentence. */
export function sentence(message) {
  return `${message[0].toUpperCase()}${message.slice(1)}${/[.!?]$/.test(message) ? "" : "."}`;
}

/** The value of a click in the unit of its outcomes, with three significant digits. */
export function amount(value) {
  return value.toLocaleString("en", { maximumSignificantDigits: 3 });
}

/** A share as a percentage with one decimal; a dash if missing. */
export function percent(share) {
  return share === null || Number.isNaN(share) ? "–" : `${(100 * share).toFixed(1)} %`;
}

/** An interval of shares; empty if missing. */
export function range(low, high) {
  return low === null ? "" : `${(100 * low).toFixed(1)} to ${(100 * high).toFixed(1)}`;
}

/** A range of rounds. */
export function rounds(start, end) {
  return start === end ? count(start) : `${count(start)} to ${count(end)}`;
}

/** A number with its noun. */
export function many(number, word, words = `${word}s`) {
  return `${count(number)} ${number === 1 ? word : words}`;
}

/** A time in seconds since 1970, with the day if it is not today. */
export function moment(seconds) {
  if (seconds === null) return "–";
  const date = new Date(1000 * seconds);
  return date.toDateString() === new Date().toDateString() ? clock.format(date) : day.format(date);
}

/** A duration in seconds. */
export function stretch(seconds) {
  if (seconds < 120) return `${+seconds.toFixed(1)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}

/** The time of a round, estimated from the timeline; null if unknown. */
export function timeOf(points, round) {
  const at = points.findLastIndex((point) => point.start <= round && point.time !== null);
  if (at < 0) return null;
  const here = points[at];
  const next = points[at + 1];
  if (!next || next.time === null) return here.time;
  return here.time + ((next.time - here.time) * (round - here.start)) / (next.start - here.start);
}

/** The headline of a board: kind (yes, no, none), sign, title and sentence. */
export function verdict(watch) {
  const { board, view, bands } = watch;
  if (view === null) return none("No regimes", `${board.learner} does not tell regimes apart and shows no estimates.`);
  if (view.rounds === 0) return none("No feedback yet", "Lists count when they are answered or over.");
  const last = bands.at(-1);
  if (view.current !== view.trusted) return changed(watch, last);
  if (watch.segments) return bySegment(watch.segments);
  const text =
    view.n_changes === 0
      ? "All feedback so far fits one click behaviour."
      : `Since ${since(watch, last)} feedback fits the trusted regime ${view.trusted}.`;
  return { kind: "yes", sign: "✓", title: "Steady.", text };
}

/** Each segment has its own regimes. */
function bySegment(segments) {
  const names = doubted(segments);
  if (names.length === 0) return { kind: "yes", sign: "✓", title: "Steady.", text: "Feedback fits the trusted regime of every segment." };
  const text = `Feedback does not fit the trusted regime in: ${names.join(", ")}. Lists there serve both for now.`;
  return { kind: "no", sign: "▲", title: "Clicks have changed.", text };
}

function changed(watch, last) {
  const { current, trusted } = watch.view;
  const text =
    `Since ${since(watch, last)} feedback fits regime ${current}, not the trusted regime ${trusted}. ` +
    `${pushed(watch)}Lists serve both for now.`;
  return { kind: "no", sign: "▲", title: "Clicks have changed.", text };
}

/** The items clicked far more than the trusted regime makes likely, three at most, as a sentence. */
function pushed({ diverging }) {
  const names = diverging.filter((item) => item.rate > item.high).map((item) => item.item);
  if (names.length === 0) return "";
  const shown = names.slice(0, 3);
  const others = names.length > 3 ? ` and ${many(names.length - 3, "other")}` : "";
  return `Clicked more than expected: ${shown.join(", ")}${others}. `;
}

/** The sentence shown when more lists than usual are left unanswered. */
export function unanswered({ share, usual }) {
  return `${percent(share)} of the latest lists were left unanswered, at most ${percent(usual)} are usual. They do not count as not clicked beyond that.`;
}

function since(watch, band) {
  const time = timeOf(watch.timeline.points, band.start);
  return `round ${count(band.start)}${time === null ? "" : ` (${moment(time)})`}`;
}

function none(title, text) {
  return { kind: "none", sign: "○", title: `${title}.`, text };
}
