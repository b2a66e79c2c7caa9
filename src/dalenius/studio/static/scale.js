// From a probability to a place on the axis and back, on a logarithmic or a linear scale.

/** A scale from 0 or a power of ten to 1: `place` in 0..1, `value` back, and the ticks. */
export function scale(kind, smallest) {
  return kind === "linear" ? linear() : logarithmic(smallest);
}

function linear() {
  const ticks = [0, 0.2, 0.4, 0.6, 0.8, 1].map((value) => ({ value, label: String(value), place: value }));
  return { kind: "linear", place: (value) => clamp(value), value: (place) => clamp(place), ticks };
}

function logarithmic(smallest) {
  const decades = Math.max(1, Math.ceil(-Math.log10(smallest) - 1e-9));
  const place = (value) => clamp(1 + Math.log10(Math.max(value, 1e-300)) / decades);
  const value = (at) => 10 ** ((clamp(at) - 1) * decades);
  const every = Math.ceil(decades / 5); // labels must not run into each other
  const ticks = [];
  for (let decade = 0; decade <= decades; decade += 1) {
    const labelled = (decades - decade) % every === 0 || every === 1;
    const power = 10 ** (decade - decades);
    ticks.push({ value: power, label: labelled ? power.toFixed(decades - decade) : "", place: place(power) });
    if (decades <= 4 && decade < decades) {
      for (const times of [2, 5]) ticks.push({ value: times * power, label: "", place: place(times * power) });
    }
  }
  return { kind: "log", place, value, ticks };
}

const clamp = (place) => Math.min(1, Math.max(0, place));
