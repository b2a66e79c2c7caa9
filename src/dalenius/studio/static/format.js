// Numbers as people read them: thousands separated, as many digits as mean something.

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
