// Charts, drawn by hand in SVG. Widths are percentages, so a chart fits its place without measuring it.
import { h, svg, type Child } from './dom';
import { count, money, percent, words } from './format';
import type { ModelResult, Overview } from './data';
import { plain, short } from './text';

const GRID = [0, 0.25, 0.5, 0.75, 1];
const PLOT_HEIGHT = 264;
const LABEL_DISTANCE = 15;

function at(share: number): string {
  return `${(Math.min(1, Math.max(0, share)) * 100).toFixed(2)}%`;
}

function figure(title: string, note: Child, about: string, ...body: Child[]): HTMLElement {
  return h('figure', { class: 'card chart', 'aria-label': about },
    h('figcaption', null, h('h2', null, title), h('p', { class: 'note' }, note)), ...body);
}

/** The accuracy of each model with its interval. */
export function accuracy(results: ModelResult[]): HTMLElement {
  const rows = results.map((result) => {
    const value = result.accuracy;
    const scored = result.passed + result.failed;
    const bar = svg('svg', { class: 'meter', 'aria-hidden': 'true' },
      svg('rect', { x: 0, y: 6, width: '100%', height: 8, rx: 2, class: 'track' }),
      ...GRID.slice(1, -1).map((x) => svg('line', { x1: at(x), x2: at(x), y1: 3, y2: 17, class: 'gridline' })),
      value === null ? null : svg('rect', { x: 0, y: 6, width: at(value), height: 8, rx: 2, class: 'value' }),
      result.interval === null ? null : [
        svg('line', { x1: at(result.interval.low), x2: at(result.interval.high), y1: 10, y2: 10, class: 'whisker' }),
        ...[result.interval.low, result.interval.high].map((x) =>
          svg('line', { x1: at(x), x2: at(x), y1: 4, y2: 16, class: 'whisker' })),
      ]);
    const range = result.interval === null ? 'not scored'
      : `${percent(result.interval.low, 0)} to ${percent(result.interval.high, 0)}, n = ${count(scored)}`;
    return h('div', { class: 'bar-row' },
      h('span', { class: 'name' }, short(result.model, 60)),
      h('span', { class: 'num' }, h('strong', null, percent(value)), ' ', h('span', { class: 'quiet' }, range)), bar);
  });
  return figure('Accuracy', 'Passed units of all scored units, with the 95% Wilson interval.',
    'Accuracy of each model', ...rows);
}

interface Point { label: string; x: number; y: number; low: number; high: number; cost: number }

/** The cost of an answer against the accuracy. */
export function costs(results: ModelResult[]): HTMLElement | null {
  const points: Point[] = [];
  const without: string[] = [];
  for (const result of results) {
    if (result.accuracy === null || result.interval === null) continue;
    const cost = result.answers.cost_usd;
    if (cost === undefined) without.push(`${short(result.model, 40)} (${percent(result.accuracy)})`);
    else {
      points.push({
        label: short(result.model, 32), x: 0, y: result.accuracy, cost: cost / Math.max(1, result.trials), ...result.interval,
      });
    }
  }
  if (points.length === 0) return null;
  const most = Math.max(...points.map(({ cost }) => cost), 1e-9);
  const step = 10 ** Math.floor(Math.log10(most));
  const top = [1, 2, 4, 5, 8, 10].map((factor) => factor * step).find((value) => value >= most * 1.05) ?? step * 20;
  points.forEach((point) => { point.x = point.cost / top; });
  const y = (share: number) => (1 - share) * PLOT_HEIGHT;
  const placed: { x: number; y: number }[] = [];
  const marks = points.sort((a, b) => b.y - a.y).map((point) => {
    let label = y(point.y) + 4;
    while (placed.some((other) => Math.abs(other.x - point.x) < 0.3 && Math.abs(other.y - label) < LABEL_DISTANCE)) label += 4;
    placed.push({ x: point.x, y: label });
    const isLeft = point.x > 0.55;
    return svg('g', null,
      svg('line', { x1: at(point.x), x2: at(point.x), y1: y(point.low), y2: y(point.high), class: 'whisker thin' }),
      svg('circle', { cx: at(point.x), cy: y(point.y), r: 5.5, class: 'point' }),
      svg('text', { x: at(point.x), y: label, dx: isLeft ? -11 : 11, 'text-anchor': isLeft ? 'end' : 'start' },
        point.label, svg('tspan', { class: 'quiet' }, ` ${percent(point.y, 0)}`)));
  });
  const plot = svg('svg', { class: 'plot', height: PLOT_HEIGHT, role: 'img',
    'aria-label': points.map((point) => `${point.label}: ${money(point.cost)} per answer, ${percent(point.y)}`).join('; ') },
    ...GRID.map((share) => [
      svg('line', { x1: 0, x2: '100%', y1: y(share), y2: y(share), class: share === 0 ? 'axis' : 'gridline' }),
      svg('text', { x: 0, y: y(share), dx: -8, dy: 4, 'text-anchor': 'end', class: 'tick' }, percent(share, 0)),
    ]),
    ...[0, 0.5, 1].map((share) =>
      svg('text', { x: at(share), y: PLOT_HEIGHT, dy: 18, class: 'tick',
        'text-anchor': share === 0 ? 'start' : share === 1 ? 'end' : 'middle' }, money(share * top))), ...marks);
  const note = ['Cost of one answer, without judging, against accuracy. Up and left is better.',
    without.length > 0 && ` Without a known price: ${without.join(', ')}.`];
  return figure('Cost and accuracy', note, 'Cost of an answer against accuracy', h('div', { class: 'plot-frame' }, plot));
}

const GROUPS = ['content', 'autofail', 'abstained', 'retry', 'system', 'other'] as const;
const GROUP_NAMES: Record<(typeof GROUPS)[number], string> = {
  content: 'wrong answer', autofail: 'no valid answer', abstained: 'declined', retry: 'provider failed', system: 'benchmark, judge or Wharf',
  other: 'not scored for another reason',
};

/** Why units did not pass, by group and category. */
export function failures(overview: Overview, href: (category: string, model: string) => string): HTMLElement | null {
  const most = Math.max(...overview.results.map((result) => result.units - result.passed));
  if (!(most > 0)) return null;
  const rows = overview.results.map((result) => {
    const parts = result.failures.map(({ category, group, units }) => ({ category, group, units }));
    if (result.uncategorized > 0) parts.push({ category: 'none', group: 'other', units: result.uncategorized });
    parts.sort((a, b) => GROUPS.indexOf(a.group as never) - GROUPS.indexOf(b.group as never) || b.units - a.units);
    let from = 0;
    const bar = svg('svg', { class: 'meter', 'aria-hidden': 'true' }, ...parts.map((part) => {
      const x = from;
      from += part.units / most;
      return svg('rect', { x: at(x), y: 3, width: at(part.units / most), height: 14, class: `group g-${part.group}` });
    }));
    const total = result.units - result.passed;
    return h('div', { class: 'bar-row' },
      h('span', { class: 'name' }, short(result.model, 60)),
      h('span', { class: 'num quiet' }, `${count(total)} of ${count(result.units)}`), bar,
      h('ul', { class: 'parts' }, ...parts.map((part) => h('li', null,
        h('a', { href: href(part.category, result.model) },
          h('span', { class: `swatch g-${part.group}`, 'aria-hidden': 'true' }),
          part.category === 'none' ? 'no category' : words(part.category), ' ', h('span', { class: 'num' }, count(part.units)))))));
  });
  const used = GROUPS.filter((group) => overview.results.some((result) =>
    group === 'other' ? result.uncategorized > 0 : result.failures.some((failure) => failure.group === group)));
  const legend = h('ul', { class: 'legend' }, ...used.map((group) =>
    h('li', null, h('span', { class: `swatch g-${group}`, 'aria-hidden': 'true' }), GROUP_NAMES[group])));
  return figure('Units that did not pass', 'By group and category of the failure. A link lists the units.',
    'Failures of each model by group', legend, ...rows);
}

/** The accuracy of each keyword and model. */
export function keywords(overview: Overview, href: (keyword: string, model: string) => string): HTMLElement | null {
  const names = [...new Set(overview.keywords.map(({ keyword }) => keyword))].slice(0, 24);
  if (names.length < 2) return null;
  const models = overview.results.map(({ model }) => model);
  const cell = (keyword: string, model: string) => {
    const found = overview.keywords.find((entry) => entry.keyword === keyword && entry.model === model);
    if (!found || found.scored === 0) return h('td', { class: 'num quiet' }, '–');
    const share = found.passed / found.scored;
    return h('td', { class: `num heat heat-${Math.min(4, Math.floor(share * 5))}` },
      h('a', { href: href(keyword, model), title: plain(`${keyword}, ${model}: ${found.passed} of ${found.scored} passed`) },
        percent(share, 0)), h('span', { class: 'quiet' }, ` of ${found.scored}`));
  };
  return h('figure', { class: 'card chart' },
    h('figcaption', null, h('h2', null, 'Accuracy by keyword'),
      h('p', { class: 'note' }, 'Share of scored units that passed, and their number.')),
    h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Accuracy by keyword' },
      h('table', { class: 'heatmap' },
        h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'Keyword'),
          ...models.map((model) => h('th', { scope: 'col', class: 'num' }, short(model, 24))))),
        h('tbody', null, ...names.map((keyword) => h('tr', null, h('th', { scope: 'row' }, short(keyword, 40)),
          ...models.map((model) => cell(keyword, model))))))));
}
