export interface Options {
  /** An API key, where the server has keys. */
  key?: string;
  /** Milliseconds for each try; if left out, 200 for `rank` and `feedback` and 10,000 for the rest. */
  timeout?: number;
  /** How often a request is tried; if left out, once for `rank` and `feedback` and five times for the rest. */
  tries?: number;
  /** Lists in a row that the server did not give, after which it is asked for one in `breakerSeconds`; 5 if left out. */
  breakerFailures?: number;
  /** 5 if left out. */
  breakerSeconds?: number;
  /** Answers that may wait to be sent in the background; 10,000 if left out, none where `tries` is given. */
  queue?: number;
  /**
   * Go straight to the worker that owns a board, as soon as an answer has named it, and back to the server when it is
   * gone. The key goes along, not encrypted: for a network that is your own. False if left out.
   */
  straight?: boolean;
  /** Where warnings go; `console.warn` if left out. */
  warn?: (message: string) => void;
}

export interface RankOptions {
  /** The list to return if the server gives none in time, for whatever reason. */
  fallback?: readonly string[];
  candidates?: readonly string[];
  length?: number;
  /** Who looks. */
  client?: string;
  cohort?: Readonly<Record<string, string>>;
  unknown?: "refuse" | "skip" | "add";
  theirs?: readonly string[];
  features?: Readonly<Record<string, number | string | null>>;
  segment?: string;
  /** What this list has to keep, beside the board's rules. */
  rules?: Readonly<Record<string, unknown>>;
}

export interface Ranking {
  /** To answer it with; empty for a fallback, which `feedback` takes and does not send. */
  impression: string;
  items: string[];
  /** Seconds since 1970; 0 for a fallback. */
  expires: number;
  /** Candidates that were left out. */
  skipped?: number;
  /** Rules that could not be kept. */
  unkept?: string[];
  /** Whether this is the caller's own list. */
  fallback: boolean;
  /** It is: what went wrong. */
  why: string;
}

export interface Answer {
  /** The item that was clicked, or null for none. */
  clicked?: string | null;
  /** 0 or 1 for each place. */
  clicks?: readonly (0 | 1)[];
  /** How many places, from the top, were looked at. */
  examined?: number;
  /** Who answers, where the board has `bind_client`. */
  client?: string;
  /** What came of the click on `clicked` at once, as `outcome` reports it; it needs a key. */
  value?: number;
  /** Under which that counts once; "answer" if left out. */
  id?: string;
}

export interface Answered {
  /** learnt, waiting, late, duplicate; queued: it is sent in the background; fallback: there was nothing to answer. */
  outcome: string;
  /** Of an answer that waits, when it is learnt from; else empty. */
  says: string;
}

export interface Observed {
  outcome: string;
  impression: string;
  expires: number;
  ours: string[];
}

/** The server refused a request; `code` says why, as in its documentation. */
export class Refused extends Error {
  readonly code: number;
}

/** The server could not be reached, or did not answer in time. */
export class Away extends Error {}

export class Client {
  constructor(url?: string, options?: Options);
  /** How many answers wait to be sent in the background. */
  readonly queued: number;
  /** How many queued answers were never counted: refused by the server, or too many waited. */
  readonly lost: number;
  rank(board: string, options?: RankOptions): Promise<Ranking>;
  feedback(board: string, impression: string, answer?: Answer & { wait?: boolean }): Promise<Answered>;
  /** Report a list that another ranker showed, once for each `id`. */
  observe(board: string, id: string, items: readonly string[], more?: Answer & Record<string, unknown>): Promise<Observed>;
  /** Report what came of a click, once for each `id`: learnt, counted, waiting, ignored or duplicate. */
  outcome(board: string, impression: string, item: string, value: number, of: { id: string; kind?: string }): Promise<string>;
  /** Wait until all queued answers are sent; whether they are. */
  flush(milliseconds?: number): Promise<boolean>;
  /** Send what is queued, as far as that takes at most 5 s. */
  close(): Promise<void>;
}
