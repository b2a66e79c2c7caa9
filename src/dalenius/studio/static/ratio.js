// Limits as text: "0.02" or "1/50". The server computes with them exactly; here they are read to be drawn.

const DECIMAL = /^\s*(\d+(?:\.\d*)?|\.\d+)\s*$/;
const RATIO = /^\s*(\d+)\s*\/\s*(\d+)\s*$/;

/** The number that a text means, or null if it means none. */
export function read(text) {
  if (DECIMAL.test(text)) return Number(text);
  const ratio = RATIO.exec(text);
  if (ratio === null || Number(ratio[2]) === 0) return null;
  return Number(ratio[1]) / Number(ratio[2]);
}

/** The limit that a text means: above 0 and at most 1, else null. */
export function readLimit(text) {
  const number = read(text);
  return number !== null && number > 0 && number <= 1 ? number : null;
}

/** A number with three significant digits, as decimal text without an exponent. */
export function threeDigits(number) {
  return decimal(Number(number.toPrecision(3)));
}

/** A number of at most three significant digits as decimal text. */
function decimal(number) {
  if (number === 0) return "0";
  const places = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(number))));
  const text = number.toFixed(Math.min(places, 20));
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/**
 * The smallest limit that is at least count / total: three significant digits, or a ratio where these would be 1,
 * which is no limit. Null if it would be above 1.
 */
export function atLeast(count, total) {
  if (total <= 0 || count > total) return null;
  if (count === total) return "1";
  const unit = 10 ** (Math.floor(Math.log10(count / total)) - 2);
  let steps = Math.floor(count / total / unit);
  for (;;) {
    const text = decimal(steps * unit);
    if (text === "1") return `${count}/${total}`;
    if (isAtLeast(text, count, total)) return text;
    steps += 1;
  }
}

function isAtLeast(text, count, total) {
  const [units, fraction = ""] = text.split(".");
  return BigInt(units + fraction) * BigInt(total) >= BigInt(count) * 10n ** BigInt(fraction.length);
}
