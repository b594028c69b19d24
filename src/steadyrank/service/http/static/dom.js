/** Create and update nodes: text is inserted as text, and unchanged nodes are not touched. */

const SVG = "http://www.w3.org/2000/svg";

/** The element with this id. */
export function byId(id) {
  return document.getElementById(id);
}

/** Create an element with attributes and children; strings become text. */
export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Create an SVG element. */
export function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  setAll(node, attributes);
  node.append(...children);
  return node;
}

/** Set the attributes that differ. */
export function setAll(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    const text = String(value);
    if (node.getAttribute(name) !== text) node.setAttribute(name, text);
  }
}

/** Set the text of a node if it differs, so that a selection in it survives. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Show or hide a node. */
export function show(node, visible) {
  if (node.hidden === visible) node.hidden = !visible;
}

/** Reconcile the children of `parent` with `rows` by key: nodes are kept, with their focus. */
export function match(parent, rows, keyOf, create, update) {
  const before = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  const focused = document.activeElement;
  const held = parent.contains(focused);
  rows.forEach((row, place) => {
    const key = String(keyOf(row, place));
    let node = before.get(key);
    if (node === undefined) {
      node = create(row);
      node.dataset.key = key;
    }
    before.delete(key);
    if (parent.children[place] !== node) parent.insertBefore(node, parent.children[place] ?? null);
    update(node, row, place);
  });
  before.forEach((node) => node.remove());
  if (held && document.activeElement !== focused) giveBack(parent, focused);
}

/** Restore the focus that was lost by a move; if its row is gone, focus the heading above. */
function giveBack(parent, focused) {
  if (parent.contains(focused)) focused.focus({ preventScroll: true });
  else parent.closest("section")?.querySelector("h2")?.focus({ preventScroll: true });
}
