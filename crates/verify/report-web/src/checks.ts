// The checks of an answer: the fields of a template, and the assertions on a trace.
import type { Assertion, Field, Template } from './data';
import { h, scrolling, type Child } from './dom';
import { NONE, percent } from './format';
import { check } from './marks';
import { block, short, shown } from './text';

export function section(name: string, ...children: Child[]): HTMLElement {
  return h('section', { class: 'card' }, h('h2', null, name), ...children);
}

export function template(result: Template | undefined): HTMLElement | null {
  if (!result) return null;
  const value = (text: string | undefined) => text === undefined ? h('span', { class: 'quiet' }, NONE) : block(text, { code: true });
  const row = (field: Field) => h('tr', null,
    h('th', { scope: 'row' }, short(field.name, 80)), h('td', null, check(field.passed)),
    h('td', null, value(field.extracted)), h('td', null, value(field.truth)), h('td', { class: 'num' }, percent(field.score, 0)),
    h('td', null, field.reason ? h('div', { class: 'text' }, shown(field.reason)) : '', meaning(field)));
  const head = ['Field', 'Result', 'Extracted', 'Truth', 'Score', 'Reason'];
  return h('section', { class: 'card' },
    h('h2', null, 'Template ', check(result.passed), h('span', { class: 'aside' }, `score ${percent(result.score, 0)}`)),
    scrolling('Fields of the template', h('table', { class: 'fields' },
      h('thead', null, h('tr', null, ...head.map((name) => h('th', { scope: 'col', class: name === 'Score' ? 'num' : null }, name)))),
      h('tbody', null, ...result.fields.map(row)))));
}

/** What the comparison of meanings found, for a field whose values differ. */
function meaning({ similarity, overruled }: Field): HTMLElement | null {
  if (similarity === undefined && overruled === undefined) return null;
  return h('div', { class: 'text' }, h('span', { class: 'quiet' }, `similarity of the meanings ${percent(similarity, 0)}`),
    overruled === undefined ? null : ['; accepted by the judge: ', shown(overruled)]);
}

export function assertions(results: Assertion[] | undefined): HTMLElement | null {
  if (!results || results.length === 0) return null;
  return section('Assertions on the trace', h('ul', { class: 'checks' }, ...results.map((assertion) =>
    h('li', null, check(assertion.passed), h('span', { class: 'text' }, shown(assertion.assertion)),
      assertion.reason ? h('span', { class: 'quiet text' }, shown(assertion.reason)) : null,
      assertion.path_efficiency === undefined ? null : h('span', { class: 'quiet' }, `efficiency ${percent(assertion.path_efficiency, 0)}`)))));
}
