/** A small timeline chart without text, for a card. */

import { draw, match, setAll } from "./dom.js";
import { clicked, coarse, extent, trace } from "./timeline.js";

/** Draw bands, and clicks per list. */
export function sketch(svg, watch) {
  const { points, size } = coarse(watch.timeline);
  const { first, last } = extent(watch);
  const x = (round) => (300 * (round - first)) / Math.max(last + 1 - first, 1);
  const most = Math.max(0.1, ...points.map((point) => clicked(point) ?? 0));
  if (svg.children.length === 0) svg.append(draw("g"), draw("path", { class: "line", "vector-effect": "non-scaling-stroke" }));
  const [bands, line] = svg.children;
  match(bands, watch.bands, (band) => band.start, () => draw("rect", { y: 0, height: 56 }), (node, band) => {
    const from = Math.max(x(band.start), 0);
    setAll(node, { class: band.trusted ? "trusted" : "doubted", x: from, width: Math.max(x(band.end + 1) - from, 0) });
  });
  setAll(line, { d: trace(points, (point) => point.start + size / 2, x, (value) => 54 - (50 * value) / most, clicked) });
}
