/** Actions for admins. Each asks for confirmation, and reports its outcome or the server's refusal. */

import { ask, Away, path, Refusal, send } from "./api.js";
import { byId, make, say } from "./dom.js";
import { senderName } from "./silenced.js";
import { count, many, rounds, sentence } from "./words.js";

const SHOWN = 12_000; // milliseconds
let fading = null;

/** Report an outcome, visibly and to screen readers. */
function tell(text, refused = false) {
  const said = byId("said");
  said.className = refused ? "said on refused" : "said on";
  said.textContent = text;
  clearTimeout(fading);
  fading = setTimeout(() => (said.className = "said"), SHOWN);
}

/** Ask for confirmation; a promise of yes or no. */
function confirmed(title, text, yes) {
  const dialog = byId("ask");
  say(byId("ask-title"), title);
  say(byId("ask-text"), text);
  say(byId("ask-yes"), yes);
  dialog.returnValue = "";
  dialog.showModal();
  byId("ask-no").focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

/** Make the dialog's buttons close it. */
export function prepare() {
  byId("ask-no").addEventListener("click", () => byId("ask").close("no"));
  byId("ask-yes").addEventListener("click", () => byId("ask").close("yes"));
}

/** Run an action and report how it went. Returns whether it succeeded. */
async function run(work, done) {
  try {
    tell("Asking the server…");
    const answer = await work();
    tell(done(answer));
    return true;
  } catch (error) {
    if (!(error instanceof Refusal || error instanceof Away)) throw error;
    tell(`Refused: ${sentence(error.message)}`, true);
    return false;
  }
}

const MEANING = {
  fraud: "Feedback of these rounds is no longer learnt from.",
  honest: "Feedback of these rounds is learnt from, and opens no regime of its own.",
};

/** Label rounds as fraud or as honest. */
export async function label(board, { start, end }, word) {
  const text =
    `${MEANING[word]} The server replays the log; until it is done, lists go on as before. ` +
    "A label can be taken back for as long as the log reaches back to its first round.";
  const title = `Label ${many(end - start + 1, "round")}, ${rounds(start, end)}, as ${word}?`;
  if (!(await confirmed(title, text, `Label as ${word}`))) return false;
  return run(
    () => ask("POST", path(board, "labels"), { start, end, label: word }),
    (made) => `Label ${made.number}: rounds ${rounds(made.start, made.end)} are ${made.label}.`,
  );
}

/** Remove a label. */
export async function takeBack(board, { number, start, end, label: word }) {
  const text = `Rounds ${rounds(start, end)} are no longer labelled as ${word}. The server replays the log.`;
  if (!(await confirmed(`Take back label ${number}?`, text, "Take back"))) return false;
  return run(() => ask("DELETE", path(board, "labels", String(number))), () => `Label ${number} was taken back.`);
}

const MEANING_OF_CLIENT = {
  fraud: "Nothing that it sent is learnt from, as far back as the log is kept.",
  honest: "Its feedback counts, whatever the guard finds.",
};

/** Label a client or a cohort as fraud or as honest. */
export async function labelClient(board, one, word) {
  const name = senderName(one);
  const text = `${MEANING_OF_CLIENT[word]} The server replays the log; until it is done, lists go on as before. A label can be taken back.`;
  if (!(await confirmed(`Label ${name} as ${word}?`, text, `Label as ${word}`))) return false;
  return run(
    () => ask("POST", path(board, "client-labels"), { client: one.client, kind: one.kind, label: word }),
    (made) => `Label ${made.number}: ${name} is ${made.label}.`,
  );
}

/** Remove the label of a client or a cohort. */
export async function takeBackClient(board, one) {
  const text = `${senderName(one)} is judged by the guard again. The server replays the log.`;
  if (!(await confirmed(`Take back label ${one.number}?`, sentence(text), "Take back"))) return false;
  return run(() => ask("DELETE", path(board, "labels", String(one.number))), () => `Label ${one.number} was taken back.`);
}

/** Retire an item. */
export async function retire(board, item) {
  const text = "It is shown no longer. What was learnt of it is kept, and it can be reinstated under All items.";
  if (!(await confirmed(`Retire ${item}?`, text, "Retire"))) return false;
  return run(
    () => ask("DELETE", path(board, "items", item)),
    (now) => `${item} is retired; ${many(now.items, "item")} left.`,
  );
}

/** Show a retired item again. */
export async function reinstate(board, item) {
  if (!(await confirmed(`Reinstate ${item}?`, "It may be shown again, with what was learnt of it.", "Reinstate"))) return false;
  return run(
    () => ask("POST", path(board, "items"), { items: [item] }),
    (now) => `${item} is reinstated; ${many(now.items, "item")} now.`,
  );
}

/** Save the board with its log as a file, without the secret that signs impression ids. */
export async function save(board, events) {
  const text = `The file holds ${many(events, "event")} of the log and no secret; steadyrank import reads it.`;
  if (!(await confirmed(`Export ${board}?`, text, "Export"))) return false;
  return run(
    async () => (await send("GET", path(board, "export"), undefined, 600_000)).blob(),
    (blob) => {
      const link = make("a", { href: URL.createObjectURL(blob), download: `${board}.jsonl` });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
      return `Exported ${board}: ${count(blob.size)} bytes.`;
    },
  );
}
