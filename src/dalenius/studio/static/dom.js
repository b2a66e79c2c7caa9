// Making and changing elements, and numbers as people read them. Text goes in as text: nothing here parses markup.

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
  const tail = text.slice(head.length);
  if (tail === "") return fill(node, el("bdi", { class: "head" }, text));
  const part = (kind, words) => el("bdi", { class: kind, "aria-hidden": "true" }, words);
  return fill(node, el("span", { class: "sr-only" }, text), part("head", head), part("tail", tail));
}

/** The text to show for a name: an empty one has to be visible too. */
export const nameText = (text) => (text === "" ? "(empty text)" : String(text));

// Numbers: thousands separated, as many digits as mean something.
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const three = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const threeAlways = new Intl.NumberFormat("en", { minimumSignificantDigits: 3, maximumSignificantDigits: 3 });
const fourAlways = new Intl.NumberFormat("en", { minimumSignificantDigits: 4, maximumSignificantDigits: 4 });

/** 12345 -> "12,345". */
export const count = (number) => whole.format(number);

/** A figure such as an MSE: 3 or 4 digits; no digits behind the point from 1,000 on. */
export function figure(number) {
  if (number === null || number === undefined) return "–";
  if (Number.isInteger(number) || Math.abs(number) >= 1000) return whole.format(number);
  return Math.abs(number) >= 10 ? fourAlways.format(number) : threeAlways.format(number);
}

/** A probability: 3 digits, never with an exponent. */
export function probability(number) {
  if (number === null || number === undefined || Number.isNaN(number)) return "–";
  return number === 0 ? "0" : three.format(number);
}

/** A share in percent: "12.3 %", "0.04 %", with a space that does not break. */
export function percent(share) {
  if (share === null || share === undefined || Number.isNaN(share)) return "–";
  const hundredths = 100 * share;
  if (hundredths === 0) return "0\u00a0%";
  if (hundredths > 99.9 && hundredths < 100) return "over 99.9\u00a0%";
  if (Math.abs(hundredths) >= 100) return `${whole.format(hundredths)}\u00a0%`;
  const digits = Math.abs(hundredths) >= 10 ? 3 : 2;
  return `${new Intl.NumberFormat("en", { maximumSignificantDigits: digits }).format(hundredths)}\u00a0%`;
}

/** A ratio in words: "4.2 times", "1,300 times". */
export const times = (ratio) =>
  `${ratio >= 100 ? whole.format(ratio) : three.format(Number(ratio.toPrecision(ratio < 1.1 ? 3 : 2)))} times`;

/** "1 bucket", "2 buckets". */
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

/** "a", "a and b", "a, b and c", of elements or text, as a list of children. */
export function listed(parts) {
  return parts.flatMap((part, at) => (at === 0 ? [part] : [at === parts.length - 1 ? " and " : ", ", part]));
}

/** Seconds in words. */
export function seconds(number) {
  if (number < 1) return "less than a second";
  if (number < 90) return `${plural(Math.round(number), "second")}`;
  return `${plural(Math.round(number / 60), "minute")}`;
}

/** Bytes in words. */
export function bytes(number) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (number >= 1000 && at < units.length - 1) [number, at] = [number / 1000, at + 1];
  return `${at === 0 ? whole.format(number) : three.format(number)} ${units[at]}`;
}

/** With a capital first letter. */
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** The server's sentences are made for a terminal. Here they stand alone, and there are fields instead of options. */
export function sentence(text) {
  if (!text) return "";
  const here = text.replaceAll("--min-size 2", "a smallest bucket of 2");
  return capital(here) + (/[.!?…]$/.test(here) ? "" : ".");
}
