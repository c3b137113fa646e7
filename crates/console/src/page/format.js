// Numbers for people.

const three = (value) => value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0);

/** Milliseconds, in the unit that suits them. */
export function ms(value) {
  if (value === null || value === undefined) return "–";
  if (value <= 0) return "0";
  if (value < 0.9995) return `${Math.round(value * 1000)} µs`;
  return value < 999.5 ? `${three(value)} ms` : `${three(value / 1000)} s`;
}

export function rate(value) {
  if (value === null || value === undefined) return "–";
  return value < 99.95 ? value.toFixed(1) : Math.round(value).toLocaleString("en");
}

export const count = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en"));

export function ago(seconds) {
  if (seconds < 99.5) return `${Math.round(seconds)} s`;
  return seconds < 5970 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}
