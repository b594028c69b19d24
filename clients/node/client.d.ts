export interface Options {
  /** An API key, where the server has keys. */
  key?: string;
  /** Milliseconds per try; default: 200 for `rank` and `feedback`, 10,000 for the rest. */
  timeout?: number;
  /** Number of tries; default: 1 for `rank` and `feedback`, 5 for the rest. */
  tries?: number;
  /** Failed lists in a row after which only one is requested in `breakerSeconds`; default: 5. */
  breakerFailures?: number;
  /** Default: 5. */
  breakerSeconds?: number;
  /** Answers that may be queued for sending in the background; default: 10,000, or 0 if `tries` is given. */
  queue?: number;
  /**
   * Send requests directly to the worker that owns a board, once an answer has named it, and to the server again when
   * it is gone. The key goes there unencrypted: use it only on a private network. Default: false.
   */
  straight?: boolean;
  /** Receives warnings; default: `console.warn`. */
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
  /** Rules for this list, in addition to the board's. */
  rules?: Readonly<Record<string, unknown>>;
}

export interface Ranking {
  /** For answering it; empty for a fallback, whose feedback is not sent. */
  impression: string;
  items: string[];
  /** Seconds since 1970; 0 for a fallback. */
  expires: number;
  /** Number of candidates left out. */
  skipped?: number;
  /** Rules that could not be kept. */
  unkept?: string[];
  /** Whether this is the caller's own list. */
  fallback: boolean;
  /** For a fallback: what went wrong. */
  why: string;
}

export interface Answer {
  /** The clicked item, or null for none. */
  clicked?: string | null;
  /** 0 or 1 for each place. */
  clicks?: readonly (0 | 1)[];
  /** How many places were examined, from the top. */
  examined?: number;
  /** Who answers, where the board has `bind_client`. */
  client?: string;
  /** Value of an immediate outcome of the click, as reported by `outcome`; needs a key. */
  value?: number;
  /** Id for deduplicating that outcome; default: "answer". */
  id?: string;
}

export interface Answered {
  /** learnt, waiting, late, duplicate; queued: sent in the background; fallback: nothing to answer. */
  outcome: string;
  /** When a waiting answer will be learnt from; empty for others. */
  says: string;
}

export interface Observed {
  outcome: string;
  impression: string;
  expires: number;
  ours: string[];
}

/** The server refused a request; `code`: the status, as documented. */
export class Refused extends Error {
  readonly code: number;
}

/** The server could not be reached, or did not answer in time. */
export class Away extends Error {}

export class Client {
  constructor(url?: string, options?: Options);
  /** Number of answers queued for sending in the background. */
  readonly queued: number;
  /** Number of queued answers that never counted: refused, or dropped from a full queue. */
  readonly lost: number;
  rank(board: string, options?: RankOptions): Promise<Ranking>;
  feedback(board: string, impression: string, answer?: Answer & { wait?: boolean }): Promise<Answered>;
  /** Report a list shown by another ranker; counts once for each `id`. */
  observe(board: string, id: string, items: readonly string[], more?: Answer & Record<string, unknown>): Promise<Observed>;
  /** Report an outcome of a click; counts once for each `id`. Returns learnt, counted, waiting, ignored or duplicate. */
  outcome(board: string, impression: string, item: string, value: number, of: { id: string; kind?: string }): Promise<string>;
  /** Wait until all queued answers are sent. Returns whether they are. */
  flush(milliseconds?: number): Promise<boolean>;
  /** Send queued answers, for at most 5 s. */
  close(): Promise<void>;
}
