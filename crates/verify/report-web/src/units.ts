// The list of units, and the filters that it shares with the matrix.
import { VERDICTS, type Report, type Unit } from './data';
import { h, scrolling } from './dom';
import { count, duration, money, percent, words } from './format';
import { badge, sign } from './marks';
import { pager, slice } from './pager';
import { NO_FILTER, isFiltered, link, type Filter, type Route } from './route';
import { plain, short } from './text';

export function filters(report: Report, route: Route): HTMLElement {
  const { overview } = report;
  const go = (change: Partial<Filter>) => { location.hash = link(route, { filter: { ...route.filter, ...change } }); };
  const toggles = VERDICTS.map((verdict) => {
    const isOn = route.filter.verdicts.includes(verdict);
    const verdicts = isOn ? route.filter.verdicts.filter((other) => other !== verdict) : [...route.filter.verdicts, verdict];
    const units = report.units.reduce((total, unit) => total + Number(unit.verdict === verdict), 0);
    return h('button', { type: 'button', class: `toggle v-${verdict}`, 'aria-pressed': String(isOn), 'data-verdict': verdict,
      click: () => go({ verdicts }) }, sign(verdict), verdict, h('span', { class: 'quiet' }, count(units)));
  });
  const choice = (name: string, key: 'model' | 'judge' | 'keyword' | 'category', options: [string, string][]) =>
    options.length < 2 && route.filter[key] === '' ? null : h('label', null, h('span', null, name),
      h('select', { name: key, change: (event: Event) => go({ [key]: (event.target as HTMLSelectElement).value }) },
        h('option', { value: '' }, 'all'),
        ...options.map(([value, text]) => h('option', { value, selected: value === route.filter[key] }, short(text, 48)))));
  const categories = [...new Set(report.units.flatMap(({ category }) => (category ? [category] : [])))].sort();
  const hasNone = report.units.some(({ category, verdict }) => category === null && verdict !== 'passed');
  const keywords = [...new Set(overview.questions.flatMap(({ keywords: some }) => some ?? []))].sort();
  const same = (names: string[]): [string, string][] => names.map((name) => [name, name]);
  return h('form', { class: 'filters', 'aria-label': 'Filters', submit: (event: Event) => event.preventDefault() },
    h('div', { class: 'toggles', role: 'group', 'aria-label': 'Verdict' }, ...toggles),
    choice('Model', 'model', same(overview.models.map(({ label }) => label))),
    choice('Judge', 'judge', same(overview.judges.map(({ label }) => label))),
    choice('Keyword', 'keyword', same(keywords)),
    choice('Failure', 'category', [...categories.map((name): [string, string] => [name, words(name)]),
      ...(hasNone ? [['none', 'no category'] as [string, string]] : [])]),
    isFiltered(route.filter) ? h('a', { class: 'clear', href: link(route, { filter: NO_FILTER }) }, 'Clear filters') : null);
}

export function unitList(report: Report, route: Route, units: Unit[], isSearching: boolean): HTMLElement {
  const hasJudge = report.overview.judges.length > 0;
  const hasScore = report.units.some(({ score }) => score !== null);
  const hasReplicates = report.units.some(({ replicate }) => replicate > 1);
  const th = (name: string, extra = '') => h('th', { scope: 'col', class: extra || null }, name);
  const rows = slice(units, route.page).map((unit) => {
    const question = report.question(unit);
    const href = link(route, { unit: unit.id, page: route.page });
    const model = short(report.model(unit), 40);
    return h('tr', { 'data-unit': unit.id },
      h('td', { class: 'verdict' }, badge(unit.verdict)),
      h('th', { scope: 'row' }, h('a', { href, class: 'open' }, short(question.id, 60)),
        h('span', { class: 'sub' }, short(question.question, 120)),
        h('span', { class: 'sub narrow' }, [model, unit.category ? words(unit.category) : null].filter(Boolean).join(' · '))),
      h('td', { class: 'wide' }, model),
      hasJudge ? h('td', { class: 'wide' }, short(report.judge(unit) ?? '–', 40)) : null,
      hasReplicates ? h('td', { class: 'wide num' }, unit.replicate) : null,
      h('td', { class: 'wide' }, unit.category ? words(unit.category) : unit.verdict === 'passed' ? '' : 'no category'),
      hasScore ? h('td', { class: 'wide num' }, percent(unit.score, 0)) : null,
      h('td', { class: 'wide num' }, count(unit.tools), unit.toolErrors > 0 ? h('span', { class: 'error-text' }, ` ${unit.toolErrors} failed`) : null),
      h('td', { class: 'wide num' }, money(unit.cost)), h('td', { class: 'num' }, duration(unit.millis)));
  });
  const status = `${count(units.length)} of ${count(report.units.length)} units${isSearching ? ', searching answers …' : ''}`;
  return h('div', null,
    h('div', { class: 'list-head' }, h('p', { class: 'quiet', role: 'status' }, status)),
    units.length === 0 ? h('p', { class: 'card empty' }, 'No unit matches. ', h('a', { href: link(route, { filter: NO_FILTER }) }, 'Clear filters'))
      : h('section', { class: 'card flush' }, scrolling('Units', h('table', { class: 'units' },
        h('thead', null, h('tr', null, th('Verdict'), th('Question'), th('Model', 'wide'), hasJudge ? th('Judge', 'wide') : null,
          hasReplicates ? th('Repl.', 'wide num') : null, th('Failure', 'wide'), hasScore ? th('Score', 'wide num') : null,
          th('Tools', 'wide num'), th('Cost', 'wide num'), th('Time', 'num'))),
        h('tbody', null, ...rows)))),
    pager(route, units.length));
}

/** Returns a text for the page's title. */
export function title(report: Report, unit: Unit | undefined): string {
  const name = short(report.overview.run.benchmark, 80);
  return plain(unit ? `${unit.verdict}: ${short(report.question(unit).id, 60)} · ${name}` : `${name} · Wharf report`);
}
