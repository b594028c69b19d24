export interface WatchOptions {
  /** Address of the server, such as `https://rank.example`. */
  url: string;
  board: string;
  /** The id that came with the list, from `rank` or `observe`; empty for a fallback, which is not watched. */
  impression: string;
  /** The client's name, where the board has `bind_client`. */
  client?: string;
  /** The places of the list, from the top; default: its children. */
  places?: Iterable<Element>;
  /** CSS selector of what must be clicked inside a place; default: `a`. */
  link?: string;
  /** Share of a place, or of the window, that must be in view; default: 0.5. */
  share?: number;
  /** Milliseconds for which it must be in view; default: 500. */
  dwell?: number;
  /** Whether the visitor consents, asked each time: if not, nothing is recorded or sent. */
  consent?: () => boolean;
}

export interface Watched {
  /** Whether the answer is sent or being sent, or there is none to send. */
  readonly ended: boolean;
  /** Send the answer now, for a list that is removed while the page stays. */
  end(): void;
}

/** Report on a list when the page is left; for an impression that is already watched, returns its watcher. */
export function watch(list: Element, options: WatchOptions): Watched;

/** Retry what could not be delivered; called automatically when a page is shown and when the network is back. */
export function resume(): void;

/** Drop answers that are not delivered yet. */
export function forget(): void;
