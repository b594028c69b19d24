/** Silenced clients and cohorts, and those that a person labelled honest. */

import { byId, make, match, say, setAll, show } from "./dom.js";
import { count, many, moment, sentence } from "./words.js";

/** A client by its number, or a cohort by kind and number. */
export function senderName({ client, kind }) {
  return `${kind ?? "client"} ${client}`;
}

/** All silenced senders, and labels of senders; buttons add or remove a label. */
export function showSilenced(watch, label, takeBack) {
  const { guard, client_labels: labels } = watch;
  const chosen = guard.of_segment !== null;
  const rows = [...guard.silenced, ...(chosen ? [] : labels.filter((each) => each.label === "honest").map(foundHonest))];
  say(byId("silenced-say"), said(guard));
  show(byId("silenced-segments"), watch.segments !== null);
  show(byId("silenced-box"), rows.length > 0);
  match(byId("silenced-rows"), rows, (one) => one.client, () => senderRow(label, takeBack), (row, one) => {
    row.about = one;
    const [name, since, had, where, why, act] = row.children;
    say(name, senderName(one));
    say(since.firstChild, one.since === null ? "–" : `round ${count(one.since)}`);
    say(since.lastChild, one.time === null ? "" : moment(one.time));
    const clicks = one.clicks === null ? "" : `, ${many(one.clicks, "click")}`;
    say(had, one.visits === null ? "–" : `${many(one.visits, "visit")}${clicks}`);
    show(where, watch.segments !== null);
    say(where, cameTo(one.segments));
    say(why, sentence(one.why));
    const [fraud, honest, back] = act.children;
    show(fraud, one.label === null);
    show(honest, one.label === null);
    show(back, one.label !== null);
    setAll(fraud, { "aria-label": `Label ${senderName(one)} as fraud` });
    setAll(honest, { "aria-label": `Label ${senderName(one)} as honest` });
    setAll(back, { "aria-label": `Take back label ${one.label} of ${senderName(one)}` });
  });
}

/** The segments of the visits, most first. */
function cameTo(segments) {
  if (!segments) return "–";
  return segments.map(({ segment, visits }) => `${segment ?? "without a segment"}: ${count(visits)}`).join(", ");
}

function foundHonest({ number, client, kind }) {
  const why = `counts whatever the guard finds: a person labelled it as honest (label ${number})`;
  return { client, kind, since: null, time: null, visits: null, clicks: null, why, label: number, segments: null };
}

function said(guard) {
  if (guard.guards.length === 0) return "This board has no guard: nobody is refused, but by labels.";
  const shadow = guard.shadow ? ` ${guard.guards.length > 1 ? "They look" : "It looks"} on only: nobody is refused.` : "";
  const done = guard.guards.map((one) => did(one, guard.shadow)).join(". ");
  const few = guard.of_segment === null ? "" : ` ${count(guard.of_segment)} of those refused had visits of the segment that is chosen.`;
  const more = (guard.of_segment ?? guard.count) > guard.silenced.length ? ` The ${count(guard.silenced.length)} with the most visits are shown.` : "";
  return `${many(guard.count, "client")} or cohorts refused. ${done}.${shadow}${few}${more} Clients are numbers: no name is kept.`;
}

/** What one guard did, or would have done in shadow mode. */
function did({ guard, refused, retracted, stands_down: since }, shadow) {
  const down = since === null ? "" : `; since round ${count(since)} it stands down, because it would refuse too many`;
  return shadow
    ? `${guard} would have refused ${many(refused, "answer")} and taken back ${count(retracted)}${down}`
    : `${guard} refused ${many(refused, "answer")} and took back ${count(retracted)}${down}`;
}

/** One line for the top of the page; empty if nobody is silenced. */
export function unheard({ guard }) {
  const down = guard.guards.filter((one) => one.stands_down !== null).map((one) => one.guard);
  if (down.length) return `${down.join(" and ")} would refuse too many of the recent visits and stands down: nobody is refused.`;
  if (guard.count === 0) return "";
  const first = guard.silenced[0];
  const who = guard.count === 1 && first ? senderName(first) : `${count(guard.count)} clients or cohorts`;
  return `${who} ${guard.count === 1 ? "is" : "are"} ${guard.shadow ? "judged as false, in shadow: not refused" : "refused"}. Refused, below, says since when and why.`;
}

function senderRow(label, takeBack) {
  const button = (word, act) => {
    const made = make("button", { type: "button", class: "small" }, word);
    made.addEventListener("click", () => act(row.about));
    return made;
  };
  const acts = make(
    "td",
    {},
    button("Fraud…", (one) => label(one, "fraud")),
    button("Honest…", (one) => label(one, "honest")),
    button("Take back…", (one) => takeBack({ number: one.label, client: one.client, kind: one.kind })),
  );
  const since = make("td", {}, make("span"), make("small"));
  const row = make("tr", {}, make("th", { scope: "row" }), since, make("td"), make("td", { class: "words" }), make("td", { class: "words" }), acts);
  return row;
}
