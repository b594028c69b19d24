// Reports which places of a list were in view and which were clicked; see README.md.
const KEY = "steadyrank-beacon";
const AGAIN = [408, 429, 500, 502, 503, 504];
const lists = new Map([["", { ended: true, end() {} }]]); // by impression, so that each is answered once, and a fallback never

function stored(change) {
  try {
    const all = change(JSON.parse(sessionStorage.getItem(KEY) || "[]"));
    if (all.length) sessionStorage.setItem(KEY, JSON.stringify(all.slice(-50)));
    else sessionStorage.removeItem(KEY);
    return all;
  } catch {
    return []; // no storage: answers that cannot be delivered now are lost
  }
}

const without = (body) => (all) => all.filter(([, kept]) => kept !== body);

async function deliver(address, body) {
  stored((all) => [...without(body)(all), [address, body]]);
  for (let wait = 500; wait < 40000; wait *= 2) {
    try {
      // as text, which needs no preflight request
      const sent = { method: "POST", body, keepalive: true, credentials: "omit" };
      if (!AGAIN.includes((await fetch(address, sent)).status)) return stored(without(body));
    } catch {
      // unreachable: repeating the answer is harmless
    }
    await new Promise((done) => setTimeout(done, wait));
  }
}

export function resume() {
  for (const [address, body] of stored((all) => all)) deliver(address, body);
}

export function forget() {
  stored(() => []);
}

export function watch(list, options) {
  const { url, board, impression, client, link = "a", share = 0.5, dwell = 500, consent = () => true } = options;
  if (lists.has(impression)) return lists.get(impression);
  const address = `${url.replace(/\/$/, "")}/v1/boards/${encodeURIComponent(board)}/feedback`;
  const places = [...(options.places || list.children)];
  const clicks = places.map(() => 0);
  const timers = new Map();
  const events = new AbortController();
  let examined = 0;
  let ended = false;

  const see = (k) => {
    if (consent() && !document.hidden) examined = Math.max(examined, k + 1);
  };
  const observer = new IntersectionObserver(
    (entries) => {
      for (const { target, intersectionRatio, intersectionRect } of entries) {
        clearTimeout(timers.get(target));
        if (intersectionRatio >= share || intersectionRect.height >= innerHeight * share)
          timers.set(target, setTimeout(see, dwell, places.indexOf(target)));
      }
    },
    { threshold: [0.05, 0.25, share] },
  );
  places.forEach((place) => observer.observe(place));

  const end = (leaving) => {
    if (ended || !consent()) return;
    ended = true;
    observer.disconnect();
    events.abort();
    const body = JSON.stringify({ impression, client, clicks, examined });
    if (leaving !== true || !navigator.onLine || !navigator.sendBeacon(address, body)) deliver(address, body);
  };
  const click = ({ target }) => {
    const k = places.findIndex((place) => place.contains(target));
    if (k < 0 || !target.closest(link) || !consent()) return;
    clicks[k] = 1;
    see(k);
  };
  const { signal } = events;
  for (const kind of ["click", "auxclick"]) list.addEventListener(kind, click, { capture: true, signal });
  addEventListener("pagehide", () => end(true), { signal });
  document.addEventListener("visibilitychange", () => document.hidden && clicks.includes(1) && end(true), { signal });

  const watched = { end: () => end(false), get ended() { return ended; } };
  lists.set(impression, watched);
  return watched;
}

for (const kind of ["online", "pageshow"]) globalThis.addEventListener?.(kind, resume); // absent in server-side rendering
