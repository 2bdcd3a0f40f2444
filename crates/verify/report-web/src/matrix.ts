// Questions × models: every unit is one sign.
import type { Report, Unit } from './data';
import { h, scrolling } from './dom';
import { count, percent } from './format';
import { dot, dots } from './marks';
import { pager, slice } from './pager';
import { link, type Route } from './route';
import { short } from './text';

const SORTS: [string, string][] = [['', 'Benchmark order'], ['hard', 'Hardest first'], ['mixed', 'Most disputed first']];

function share(units: Unit[]): number | null {
  const scored = units.filter(({ verdict }) => verdict === 'passed' || verdict === 'failed');
  return scored.length === 0 ? null : scored.filter(({ verdict }) => verdict === 'passed').length / scored.length;
}

export function matrix(report: Report, route: Route, units: Unit[]): HTMLElement {
  const wanted = new Set(units.map(({ index }) => index));
  const questions = [...new Set(units.map(({ question }) => question))].sort((a, b) => a - b);
  const of = (question: number) => share(report.byQuestion[question] ?? []);
  if (route.sort === 'hard') questions.sort((a, b) => (of(a) ?? 2) - (of(b) ?? 2));
  if (route.sort === 'mixed') questions.sort((a, b) => Math.abs((of(a) ?? 2) - 0.5) - Math.abs((of(b) ?? 2) - 0.5));
  const models = report.overview.models.map((_, number) => number)
    .filter((number) => route.filter.model === '' || report.overview.models[number]?.label === route.filter.model);
  const rows = slice(questions, route.page).map((number) => {
    const question = report.overview.questions[number];
    const all = report.byQuestion[number] ?? [];
    return h('tr', null,
      h('th', { scope: 'row' }, short(question?.id ?? '', 60), h('span', { class: 'sub' }, short(question?.question ?? '', 120))),
      ...models.map((model) => h('td', null, dots(report, all.filter((unit) => unit.model === model),
        (unit) => dot(report, unit, route, !wanted.has(unit.index))))),
      h('td', { class: 'num' }, percent(of(number), 0)));
  });
  const sort = h('label', { class: 'sort' }, 'Sort ', h('select', { change: (event: Event) => {
    location.hash = link(route, { sort: (event.target as HTMLSelectElement).value });
  } }, ...SORTS.map(([value, name]) => h('option', { value, selected: value === route.sort }, name))));
  return h('div', null,
    h('div', { class: 'list-head' }, h('p', { class: 'quiet', role: 'status' }, `${count(questions.length)} questions`), sort),
    h('section', { class: 'card flush' }, scrolling('Questions and models', h('table', { class: 'matrix' },
      h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'Question'),
        ...models.map((model) => h('th', { scope: 'col' }, short(report.overview.models[model]?.label ?? '', 40))),
        h('th', { scope: 'col', class: 'num' }, 'Passed'))),
      h('tbody', null, ...rows)))),
    pager(route, questions.length));
}
