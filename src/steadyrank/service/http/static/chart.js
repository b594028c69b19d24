/** The timeline chart: regimes as bands, clicks, places examined, rejected feedback, labels. */

import { draw, match, say, setAll } from "./dom.js";
import { clicked, coarse, describe, examined, extent, summary, trace } from "./timeline.js";
import { count, moment, timeOf } from "./words.js";

const LEFT = 46;
const RIGHT = 10;
const EDGE = 28; // half the width of an axis label; labels nearer to the end would be cut off
const WORDY = 84; // width of an axis label with a day
const BANDS = { top: 4, height: 24 };
const PANELS = [
  { name: "clicked", title: "clicks per 100 lists", top: 50, height: 132, ticks: 4, of: clicked, format: hundredfold },
  { name: "examined", title: "places examined per list", top: 206, height: 56, ticks: 1, of: examined, format: count },
  { name: "rejected", title: "feedback rejected", top: 286, height: 40, ticks: 1, of: (point) => point.rejected, format: count },
];
const LABELS = { top: 332, height: 20 };
const AXIS = 366;
const HEIGHT = 398;

function hundredfold(share) {
  return String(Math.round(100 * share));
}

/** The timeline chart of a board's page. */
export class Chart {
  #svg;
  #parts = {};
  #watch = null;
  #line = null;
  #chosen = null;
  #width = 0;
  #onChoose;
  #onRead;

  /** `onChoose(start, end)` is called with a dragged interval, `onRead(text)` with a description under the pointer. */
  constructor(box, onChoose, onRead) {
    this.#onChoose = onChoose;
    this.#onRead = onRead;
    this.#svg = draw("svg", { class: "timeline", role: "img", height: HEIGHT });
    box.append(this.#svg);
    this.#build();
    this.#listen();
    new ResizeObserver(([entry]) => this.#resize(entry.contentRect.width)).observe(box);
  }

  #build() {
    for (const name of ["bands", "grid", "lines", "labels", "axis", "chosen", "cursor"]) {
      this.#parts[name] = draw("g", { class: name });
      this.#svg.append(this.#parts[name]);
    }
    for (const panel of PANELS) {
      this.#parts.lines.append(draw("path", { class: `line ${panel.name}` }));
      this.#parts.grid.append(draw("text", { class: "title", x: LEFT, y: panel.top - 7 }, panel.title), draw("g"));
    }
    this.#parts.chosen.append(draw("rect", { y: BANDS.top, height: AXIS - 8 - BANDS.top }));
    this.#parts.cursor.append(draw("line", { y1: BANDS.top, y2: AXIS - 8 }));
  }

  #resize(width) {
    if (Math.abs(width - this.#width) < 1 || width === 0) return;
    this.#width = width;
    setAll(this.#svg, { viewBox: `0 0 ${width} ${HEIGHT}`, width });
    if (this.#watch !== null) this.update(this.#watch);
  }

  /** The horizontal position of a round. */
  #x(round) {
    const { first, last } = extent(this.#watch);
    return LEFT + ((this.#width - LEFT - RIGHT) * (round - first)) / (last + 1 - first);
  }

  /** The round under the pointer. */
  #round(event) {
    const { first, last } = extent(this.#watch);
    const share = (event.clientX - this.#svg.getBoundingClientRect().left - LEFT) / (this.#width - LEFT - RIGHT);
    return Math.min(Math.max(Math.floor(first + share * (last + 1 - first)), first), last);
  }

  /** Show a board's state. */
  update(watch) {
    this.#watch = watch;
    this.#line = coarse(watch.timeline);
    if (this.#width === 0) return;
    this.#drawBands();
    PANELS.forEach((panel, place) => this.#drawPanel(panel, place));
    this.#drawLabels();
    this.#drawAxis();
    this.choose(this.#chosen);
    setAll(this.#svg, { "aria-label": summary(watch) });
  }

  #drawBands() {
    match(this.#parts.bands, this.#watch.bands, (band) => band.start, bandNode, (node, band) => {
      const from = this.#x(Math.max(band.start, extent(this.#watch).first));
      const width = Math.max(this.#x(band.end + 1) - from, 1);
      const kind = band.trusted ? "trusted" : "doubted";
      const [back, strip, text] = node.children;
      setAll(back, { class: `back ${kind}`, x: from, width, y: BANDS.top, height: AXIS - 8 - BANDS.top });
      setAll(strip, { class: `strip ${kind}`, x: from, width, y: BANDS.top, height: BANDS.height });
      setAll(text, { class: `name ${kind}`, x: from + width / 2, y: BANDS.top + 16 });
      say(text, bandName(band, width));
    });
  }

  #drawPanel(panel, place) {
    const { points, size } = this.#line;
    const unit = this.#top(panel) / panel.ticks;
    const y = (value) => panel.top + panel.height * (1 - value / (unit * panel.ticks));
    const middle = (point) => Math.min(point.start + size / 2, extent(this.#watch).last + 1);
    setAll(this.#parts.lines.children[place], { d: trace(points, middle, (r) => this.#x(r), y, panel.of) });
    const ticks = Array.from({ length: panel.ticks + 1 }, (_, i) => i * unit);
    match(this.#parts.grid.children[2 * place + 1], ticks, (_, i) => i, tickNode, (node, value) => {
      setAll(node.children[0], { x1: LEFT, x2: this.#width - RIGHT, y1: y(value), y2: y(value) });
      setAll(node.children[1], { x: LEFT - 6, y: y(value) + 4 });
      say(node.children[1], panel.format(value));
    });
  }

  /** The value at the top of a panel. */
  #top(panel) {
    if (panel.name === "examined") return this.#watch.board.length;
    const most = Math.max(...this.#line.points.map((point) => panel.of(point) ?? 0), 0);
    return panel.name === "clicked" ? Math.max(Math.ceil(5 * most), 1) / 5 : roundUp(most);
  }

  #drawLabels() {
    match(this.#parts.labels, this.#watch.labels, (label) => label.number, bandNode, (node, label) => {
      const { first, last } = extent(this.#watch);
      const from = this.#x(Math.max(label.start, first));
      const width = Math.max(this.#x(Math.min(label.end, last) + 1) - from, 2);
      const [back, strip, text] = node.children;
      setAll(back, { class: `mark ${label.label}`, x: from, width, y: PANELS[0].top, height: LABELS.top - PANELS[0].top });
      setAll(strip, { class: `strip ${label.label}`, x: from, width, y: LABELS.top, height: LABELS.height });
      setAll(text, { class: "name", x: from + width / 2, y: LABELS.top + 14 });
      say(text, width < 44 ? "" : label.label);
    });
  }

  #drawAxis() {
    const { first, last } = extent(this.#watch);
    const wanted = Math.min(Math.max(2, Math.floor((this.#width - LEFT - RIGHT) / WORDY)), 9);
    const step = Math.ceil(roundUp((last + 1 - first) / wanted));
    const marks = [];
    for (let at = Math.ceil(first / step) * step; this.#x(at) < this.#width - EDGE; at += step) marks.push(at);
    match(this.#parts.axis, marks, (mark) => mark, axisNode, (node, mark) => {
      const x = this.#x(mark);
      const time = timeOf(this.#watch.timeline.points, mark);
      setAll(node.children[0], { x1: x, x2: x, y1: AXIS - 8, y2: AXIS - 3 });
      setAll(node.children[1], { x, y: AXIS + 9 });
      setAll(node.children[2], { x, y: AXIS + 24 });
      say(node.children[1], count(mark));
      say(node.children[2], time === null ? "" : moment(time));
    });
  }

  /** Mark an interval of rounds as chosen; null for none. */
  choose(interval) {
    this.#chosen = interval;
    const rect = this.#parts.chosen.firstChild;
    if (interval === null || this.#watch === null || this.#width === 0) {
      setAll(rect, { width: 0 });
      return;
    }
    const { first, last } = extent(this.#watch);
    const from = this.#x(Math.min(Math.max(interval.start, first), last));
    const to = this.#x(Math.min(Math.max(interval.end, first), last) + 1);
    setAll(rect, { x: from, width: Math.max(to - from, 1) });
  }

  #listen() {
    let anchor = null;
    const drag = (event) => {
      const round = this.#round(event);
      this.#onChoose(Math.min(anchor, round), Math.max(anchor, round));
    };
    this.#svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || this.#watch === null) return;
      anchor = this.#round(event);
      this.#svg.setPointerCapture(event.pointerId);
    });
    this.#svg.addEventListener("pointermove", (event) => {
      if (this.#watch === null) return;
      if (anchor !== null) drag(event);
      this.#read(event);
    });
    this.#svg.addEventListener("pointerup", () => (anchor = null));
    this.#svg.addEventListener("pointercancel", () => (anchor = null));
    this.#svg.addEventListener("pointerleave", () => this.#leave());
  }

  #read(event) {
    const round = this.#round(event);
    const { points, size } = this.#line;
    const point = points.findLast((each) => each.start <= round);
    if (point === undefined) return;
    setAll(this.#parts.cursor.firstChild, { x1: this.#x(round), x2: this.#x(round), class: "on" });
    this.#onRead(describe(point, size, this.#watch));
  }

  #leave() {
    setAll(this.#parts.cursor.firstChild, { class: "" });
    this.#onRead("");
  }
}

function bandName(band, width) {
  if (width > (band.trusted ? 130 : 160)) return `regime ${band.regime} · ${band.trusted ? "trusted" : "not trusted"}`;
  if (width > 62) return `regime ${band.regime}`;
  return width > 12 ? String(band.regime) : "";
}

function bandNode() {
  return draw("g", {}, draw("rect"), draw("rect"), draw("text", { "text-anchor": "middle" }));
}

function tickNode() {
  return draw("g", { class: "tick" }, draw("line"), draw("text", { "text-anchor": "end" }));
}

function axisNode() {
  const text = () => draw("text", { "text-anchor": "middle" });
  return draw("g", {}, draw("line"), text(), text());
}

/** Round up to 1, 2, 2.5, 5, 10, 20, ... */
function roundUp(value) {
  const ten = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return ten * [1, 2, 2.5, 5, 10].find((step) => step * ten >= value);
}
