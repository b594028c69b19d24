export interface WatchOptions {
  /** Address of the server, such as `https://rank.example`. */
  url: string;
  board: string;
  /** The id that came with the list, from `rank` or `observe`; empty for a fallback, which is not watched. */
  impression: string;
  /** Who looks, where the board has `bind_client`. */
  client?: string;
  /** The places of the list, from the top; its children if left out. */
  places?: Iterable<Element>;
  /** What has to be clicked inside a place: a CSS selector, `a` if left out. */
  link?: string;
  /** Share of a place, or of the window, that has to be in view; 0.5 if left out. */
  share?: number;
  /** Milliseconds for which it has to be; 500 if left out. */
  dwell?: number;
  /** Whether the visitor agrees, asked each time: if not, nothing is noted and nothing is sent. */
  consent?: () => boolean;
}

export interface Watched {
  /** Whether the answer was sent, or is being sent, or there is none to send. */
  readonly ended: boolean;
  /** Send the answer now: where a list leaves the page and the page stays. */
  end(): void;
}

/** Report on a list when the page is left; the same impression again is the one that is watched already. */
export function watch(list: Element, options: WatchOptions): Watched;

/** Try again what could not be delivered; done by itself when a page is shown and when the network is back. */
export function resume(): void;

/** Drop what could not be delivered yet. */
export function forget(): void;
