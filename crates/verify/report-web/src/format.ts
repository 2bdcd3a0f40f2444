// Numbers for people.

export const NONE = '–';

export function count(value: number): string {
  return value.toLocaleString('en-US');
}

export function percent(share: number | null | undefined, digits = 1): string {
  return share === null || share === undefined ? NONE : `${(share * 100).toFixed(digits)}%`;
}

export function money(dollars: number | null | undefined): string {
  if (dollars === null || dollars === undefined) return NONE;
  if (dollars === 0) return '$0';
  if (dollars < 0.000_1) return '<$0.0001';
  const digits = dollars < 0.1 ? 4 : dollars < 1 ? 3 : 2;
  return `$${dollars.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })}`;
}

export function duration(millis: number | null | undefined): string {
  if (millis === null || millis === undefined) return NONE;
  if (millis < 1_000) return `${Math.round(millis)} ms`;
  if (millis < 60_000) return `${(millis / 1_000).toFixed(1)} s`;
  const seconds = Math.round(millis / 1_000);
  return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, '0')} s`;
}

export function tokens(value: number): string {
  if (value < 10_000) return count(value);
  if (value < 1_000_000) return `${(value / 1_000).toFixed(1)}k`;
  return `${(value / 1_000_000).toFixed(2)}M`;
}

export function day(seconds: number): string {
  const date = new Date(seconds * 1_000);
  return Number.isNaN(date.getTime()) ? NONE : `${date.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
}

/** Returns a name of the data as words: `rate_limit` becomes `rate limit`. */
export function words(name: string): string {
  return name.replaceAll('_', ' ');
}

export function plural(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? '' : 's'}`;
}
