/** Choices of a segment, on boards where each segment of the visits has its own list. */

import { byId, make, match, say, show } from "./dom.js";

const NONE = "visits without a segment";

const ALL = "";

/** A choice of segment for the table of silenced senders: any segment, or one. */
export class UnheardIn {
  #box = byId("silenced-segment");

  /** `onChange()` is called after another choice. */
  constructor(onChange) {
    this.#box.addEventListener("change", onChange);
  }

  /** The segment to request from the server. */
  get query() {
    return this.#box.value === ALL ? "" : `?segment=${encodeURIComponent(this.#box.value)}`;
  }

  /** Reset the choice. Returns whether one was made. */
  forget() {
    const chosen = this.#box.value !== ALL;
    this.#box.value = ALL;
    return chosen;
  }

  /** Offer the segments of a board. */
  offer({ segments }) {
    const named = (segments ?? []).map(({ segment }) => segment).filter((segment) => segment !== null);
    show(byId("silenced-segment-row"), named.length > 0);
    const choices = [ALL, ...named];
    match(this.#box, choices, (segment) => segment, (segment) => make("option", { value: segment }), (node, segment) => say(node, segment || "any"));
  }
}

/** The choice above the list. */
export class Segments {
  #box = byId("segment");

  /** `onChange()` is called after another choice. */
  constructor(onChange) {
    this.#box.addEventListener("change", onChange);
  }

  /** Offer the segments of a board, and return the chosen one; null on a board without segments. */
  choose({ segments }) {
    show(byId("segment-row"), segments !== null);
    if (segments === null) return null;
    match(this.#box, segments, ({ segment }) => segment ?? "", create, (node, { segment }) => say(node, segment ?? NONE));
    return segments.find(({ segment }) => (segment ?? "") === this.#box.value) ?? segments[0];
  }
}

/** A description of a segment's list. */
export function listedIn({ segment, view }) {
  const who = segment === null ? NONE : `visits of segment ${segment}`;
  const regimes = view.current === view.trusted ? "" : ` Its clicks have changed: items are of regimes ${view.trusted} and ${view.current}.`;
  return `What ${who} get now, with estimates of the trusted regime in them. Plain rates are of all visits.${regimes}`;
}

/** The names of segments whose clicks fit an untrusted regime. */
export function doubted(segments) {
  const found = (segments ?? []).filter(({ view }) => view.current !== view.trusted);
  return found.map(({ segment }) => segment ?? NONE);
}

function create({ segment }) {
  return make("option", { value: segment ?? "" });
}
