// Signs of verdicts. Each one has its own shape, so that color is never the only difference.
import { h, svg } from './dom';
import { link, type Route } from './route';
import type { Report, Unit, Verdict } from './data';
import { plain } from './text';

const SHAPES: Record<Verdict, [string, Record<string, string>][]> = {
  passed: [['circle', { cx: '8', cy: '8', r: '7', class: 'fill' }], ['path', { d: 'M4.6 8.3 7 10.7l4.4-5', class: 'glyph' }]],
  failed: [['rect', { x: '1.5', y: '1.5', width: '13', height: '13', rx: '2.5', class: 'fill' }],
    ['path', { d: 'm5.2 5.2 5.6 5.6m0-5.6-5.6 5.6', class: 'glyph' }]],
  invalid: [['path', { d: 'M8 1.2 14.8 8 8 14.8 1.2 8Z', class: 'line' }], ['path', { d: 'M5.4 8h5.2', class: 'line' }]],
  indeterminate: [['circle', { cx: '8', cy: '8', r: '6.3', class: 'line dashed' }],
    ['path', { d: 'M6.2 6.4c.2-2.4 3.7-2.2 3.6 0-.1 1.3-1.8 1.4-1.8 2.8', class: 'line' }],
    ['circle', { cx: '8', cy: '11.3', r: '.6', class: 'fill' }]],
};

/** The sign of a verdict, without a name: text beside it says the same. */
export function sign(verdict: Verdict): SVGElement {
  const shapes = SHAPES[verdict].map(([tag, props]) => svg(tag, props));
  return svg('svg', { viewBox: '0 0 16 16', class: `sign v-${verdict}`, 'aria-hidden': 'true' }, ...shapes);
}

/** The sign of a verdict with its name. */
export function badge(verdict: Verdict): HTMLElement {
  return h('span', { class: `badge v-${verdict}` }, sign(verdict), verdict);
}

/** The result of a check, by its name or another text. */
export function check(passed: boolean | null, text?: string): HTMLElement {
  const verdict = passed === null ? 'invalid' : passed ? 'passed' : 'failed';
  return h('span', { class: `badge v-${verdict}` }, sign(verdict), text ?? (passed === null ? 'not checked' : verdict));
}

/** A unit as one sign that links to it. */
export function dot(report: Report, unit: Unit, route: Route, isDim = false): HTMLElement {
  const judge = report.judge(unit);
  const about = plain(
    `${unit.verdict}: ${report.question(unit).id}, ${report.model(unit)}, replicate ${unit.replicate}${judge ? `, ${judge}` : ''}`);
  return h('a', {
    class: isDim ? 'dot dim' : 'dot', href: link(route, { unit: unit.id, page: route.page }), title: about, 'aria-label': about,
  }, sign(unit.verdict));
}

/** Units of one question and model: the verdicts of all judges on one answer stay together. */
export function dots(report: Report, units: Unit[], mark: (unit: Unit) => HTMLElement): HTMLElement {
  if (report.overview.judges.length < 2) return h('span', { class: 'dots' }, ...units.map(mark));
  const attempts = Map.groupBy(units, (unit) => unit.replicate);
  return h('span', { class: 'dots' }, ...[...attempts.values()].map((same) => h('span', { class: 'attempt' }, ...same.map(mark))));
}
