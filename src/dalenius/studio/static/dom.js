// Making and changing elements. Text goes in as text: nothing here parses markup.

const SVG = "http://www.w3.org/2000/svg";

/** The element with this id. */
export const byId = (id) => document.getElementById(id);

/** An element with attributes (functions become listeners) and children: elements, text, or nothing. */
export function el(tag, attributes = {}, ...children) {
  return withParts(document.createElement(tag), attributes, children);
}

/** The same, of SVG. */
export function svg(tag, attributes = {}, ...children) {
  return withParts(document.createElementNS(SVG, tag), attributes, children);
}

function withParts(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Replace all children by these. */
export function fill(node, ...children) {
  node.replaceChildren(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return node;
}

/** Set text only where it differs, so that the page is not laid out again without need. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Set an attribute only where it differs. */
export function set(node, name, value) {
  if (node.getAttribute(name) !== String(value)) node.setAttribute(name, String(value));
}

/** A name from the data inside a sentence: isolated from the direction of the text around it, and cut if very long. */
export function named(text, longest = 60) {
  const whole = nameText(text);
  if (whole.length <= longest) return el("bdi", {}, whole);
  return el("bdi", { title: whole }, shortened(whole, longest));
}

/** A text without its middle: names that differ often differ at the end. */
export function shortened(text, longest) {
  const whole = [...text]; // characters, never halves of them
  if (whole.length <= longest) return text;
  const tail = Math.floor(longest / 3);
  return `${whole.slice(0, longest - tail - 1).join("")}…${whole.slice(-tail).join("")}`;
}

const TAIL = 8; // characters at the end of a long name that are always shown

/** Show a name in a line of its own. If it is too long, the styles cut it in the middle. */
export function middle(node, text) {
  const whole = [...text];
  node.title = text;
  const head = whole.length > 2 * TAIL ? whole.slice(0, -TAIL).join("") : text;
  fill(node, el("bdi", { class: "head" }, head), head === text ? null : el("bdi", { class: "tail" }, text.slice(head.length)));
}

/** The text to show for a name: an empty one has to be visible too. */
export const nameText = (text) => (text === "" ? "(empty text)" : String(text));
