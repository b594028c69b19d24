/** The points of a timeline. */

import { count, many, moment, rounds } from "./words.js";

const FEW = 8; // lists with feedback; a rate of fewer says nothing
const ROUNDS = 20; // per drawn point, at least
const DRAWN = 100; // points, at most
const COUNTS = ["impressions", "feedback", "clicks", "examined", "rejected", "fraud"];

/** The timeline with neighbours merged until each point says something. */
export function coarse({ size, points }) {
  const each = Math.max(Math.ceil(ROUNDS / size), Math.ceil(points.length / DRAWN));
  const joined = [];
  points.forEach((point, place) => {
    if (place % each === 0) joined.push({ ...point });
    else for (const name of COUNTS) joined.at(-1)[name] += point[name];
  });
  return { size: size * each, points: joined };
}

/** Clicks per list of a point; null if there are too few lists. */
export function clicked(point) {
  return point.feedback < FEW ? null : point.clicks / point.feedback;
}

/** Places examined per list. */
export function examined(point) {
  return point.feedback < FEW ? null : point.examined / point.feedback;
}

/** The first and the last round of a timeline. */
export function extent(watch) {
  const { size, points } = watch.timeline;
  const first = points.length === 0 ? 1 : points[0].start;
  const ends = [first, ...points.slice(-1).map((point) => point.start + size - 1)];
  const latest = Math.max(watch.board.rounds, first);
  return { first, last: Math.max(Math.min(Math.max(...ends), latest), first) };
}

/** The path of a line through points; null leaves a gap. */
export function trace(points, middle, x, y, of) {
  let pen = "M";
  let way = "";
  for (const point of points) {
    const value = of(point);
    if (value === null) {
      pen = "M";
      continue;
    }
    way += `${pen}${x(middle(point)).toFixed(1)} ${y(value).toFixed(1)}${pen === "M" ? "h0" : ""}`; // a dot if it is isolated
    pen = "L";
  }
  return way;
}

/** A description of a point. */
export function describe(point, size, watch) {
  const band = watch.bands.findLast((each) => each.start <= point.start);
  const end = Math.min(point.start + size - 1, Math.max(watch.board.rounds, point.start));
  const parts = [
    `rounds ${rounds(point.start, end)}`, moment(point.time), band ? `regime ${band.regime}` : "",
    ...(clicked(point) === null ? [] : [`${Math.round(100 * clicked(point))} clicks per 100 lists`, `${examined(point).toFixed(1)} examined`]),
    `${count(point.rejected)} rejected`,
    point.fraud > 0 ? `${count(point.fraud)} left out as fraud` : "",
  ];
  return parts.filter((part) => part !== "" && part !== "–").join(" · ");
}

/** A description of the timeline in a sentence, for screen readers. */
export function summary(watch) {
  const { first, last } = extent(watch);
  const untrusted = watch.bands.filter((band) => !band.trusted).length;
  return (
    `Time line of rounds ${count(first)} to ${count(last)}: ${many(watch.bands.length, "band")} of regimes, ` +
    `${count(untrusted)} not trusted, ${many(watch.labels.length, "label")}. The same as a table below.`
  );
}
