/** Counts, limits and the log of a board. */

import { make, match, say } from "./dom.js";
import { count, many, percent, stretch } from "./words.js";

/** The row of numbers at the top of a board's page; fewer if there is no view of the learner, or no access. */
export function headlineFacts(watch) {
  const { board, view } = watch;
  const answered = board.answers + board.unanswered;
  const facts = [];
  if (view) {
    facts.push({ name: "corrupted", value: percent(view.corrupted), note: besides(watch), kind: view.corrupted > 0 ? "part" : "" });
    facts.push({ name: "trusted regime", value: String(view.trusted), note: "the longest" });
    facts.push({ name: "current regime", value: String(view.current), note: view.current === view.trusted ? "the trusted one" : "not trusted", kind: view.current === view.trusted ? "" : "no" });
    facts.push({ name: "changes of regime", value: count(view.n_changes), note: view.inverted ? "the latest inverted" : "so far" });
  }
  const open = watch.open === undefined ? "" : `, ${count(watch.open)} open`;
  facts.push({ name: "impressions", value: count(board.impressions), note: `${count(board.answers)} answered${open}` });
  facts.push({ name: "lists clicked", value: percent(answered === 0 ? null : board.clicks / answered), note: many(board.clicks, "click") });
  facts.push(silence(board.silence));
  if (view) facts.push({ name: "rejected", value: count(view.rejected), note: "kept from the learner" });
  if (watch.guard?.count) facts.push({ name: "refused", value: count(watch.guard.count), note: watch.guard.shadow ? "in shadow" : "clients or cohorts", kind: "part" });
  return facts;
}

/** The recent share of unanswered lists. */
function silence({ share, usual, alarming, alarmed }) {
  const then = alarmed !== null && !alarming ? `, too many in round ${count(alarmed)}` : "";
  const note = usual === null ? "too few answers to say more" : `at most ${percent(usual)} are usual${then}`;
  return { name: "unanswered lately", value: percent(share), note, kind: alarming ? "no" : "" };
}

/** What the estimated share refers to: feedback labelled as fraud is no longer part of it. */
function besides({ timeline }) {
  const fraud = timeline.points.reduce((sum, point) => sum + point.fraud, 0);
  return fraud === 0 ? "estimated share" : `besides ${count(fraud)} labelled fraud`;
}

/** Settings and the state of the log. */
export function limits(watch) {
  const { board } = watch;
  const settings = Object.entries(board.settings).map(([name, value]) => `${name} ${value}`);
  const guarded = board.guards.map(({ guard, settings }) => [guard, ...Object.entries(settings).map(([name, value]) => `${name} ${value}`)].join(", "));
  const rows = [
    ["learner", [board.learner, ...settings].join(", ")],
    [guarded.length > 1 ? "guards" : "guard", [guarded.join("; "), ...(board.shadow ? ["in shadow"] : [])].join(", ")],
    ["clicks of an answer", clicksOf(board.most_clicks)],
    ["items", `${count(board.items)} active, lists of ${count(board.length)}`],
    ["a list can be answered for", stretch(board.lifetime)],
    ["answers are learnt from after", stretch(board.settle ?? board.lifetime)],
    ["unanswered lists", board.count_unanswered ? `${count(board.unanswered)}, as many as are usual counted as looked at without a click` : `${count(board.unanswered)}, left out`],
    ["open impressions remembered", `${count(board.most_open)} at most`],
    ["items that other rankers' lists may add", `${count(board.observed_items)} at most`],
    ["lists for a client", `${count(board.client_lists)} a minute at most`],
    ["answers of a client", `${count(board.client_minute)} a minute at most, ${count(board.anonymous_minute)} without a name; its hash is kept for ${stretch(86400 * board.client_days)}`],
  ];
  if (board.features) rows.push(["features", known(board.features)]);
  if (board.cohorts) rows.push(["kinds of cohorts", board.cohorts.join(", ") || "none"]);
  if (board.segments) rows.push(["segments", board.segments.join(", ")]);
  if (watch.view?.attention.length) rows.push(["places are looked at", attention(watch.view.attention)]);
  if (watch.events !== undefined) rows.push(...log(watch));
  return rows.map(([name, value]) => ({ name, value }));
}

/** The maximal number of clicks in one answer. */
function clicksOf(most) {
  if (most === null) return "any number";
  return most === "usual" ? "as many as are usual here, at most; answers with more are refused" : `${count(most)} at most; answers with more are refused`;
}

/** The declared features of items and visits. */
function known({ items, visits }) {
  const [own, theirs] = [items, visits].map((kinds) => Object.keys(kinds).join(", "));
  return [own && `of items: ${own}`, theirs && `of visits: ${theirs}`].filter(Boolean).join("; ") || "none";
}

/** How far down lists people look, as learnt from their clicks. */
function attention(chances) {
  if (chances.every((chance) => chance === 1)) return "all, up to a click";
  return `${chances.map(percent).join(", ")} of the time, from the top, as far as clicks tell`;
}

function log(watch) {
  const shortened = watch.first_round > 1 ? `; rounds before ${count(watch.first_round)} are a snapshot` : "; nothing of it was shortened";
  return [
    ["log", `${count(watch.events)} events${shortened}`],
    ["lag", watch.lag === 0 ? "none: every event is applied" : `${count(watch.lag)} events not applied yet`],
  ];
}

/** Show the numbers at the top. */
export function showFacts(list, facts) {
  const create = () => make("div", {}, make("dt"), make("dd"), make("dd", { class: "note" }));
  match(list, facts, (fact) => fact.name, create, (node, fact) => {
    const [name, value, note] = node.children;
    say(name, fact.name);
    say(value, fact.value);
    say(note, fact.note ?? "");
    value.className = fact.kind ?? "";
  });
}

/** Show pairs of term and value. */
export function showLimits(list, rows) {
  match(list, rows, (row) => row.name, () => make("div", {}, make("dt"), make("dd")), (node, row) => {
    say(node.firstChild, row.name);
    say(node.lastChild, row.value);
  });
}
