// One unit: the question, the answer, how it was judged, and everything that the model did.
import { assertions, section, template } from './checks';
import type { Call, Detail, Message, Report, Trait, Unit, Usage } from './data';
import { answerMarks, messageMarks, subject, type Mark } from './excerpts';
import { h, scrolling, type Child } from './dom';
import { NONE, count, duration, money, percent, words } from './format';
import { badge, check, dot, dots } from './marks';
import { link, type Route } from './route';
import { conversation, outcome } from './scenario';
import { block, indented, short, shown } from './text';

/** What the page shows by name. Other parts of a result are shown as JSON. */
const KNOWN = new Set(['format', 'unit', 'trial', 'question', 'keywords', 'model', 'judge', 'replicate', 'verdict', 'failure',
  'reason', 'caveats', 'template', 'assertions', 'response', 'trace', 'limit_reached', 'turns', 'tool_calls', 'usage',
  'judge_usage', 'retries', 'millis', 'tool_set', 'judge_reasoning', 'excerpts', 'rubric', 'scenario']);

export interface Neighbors { units: Unit[]; place: number }

export function unitPage(report: Report, route: Route, unit: Unit, near: Neighbors): HTMLElement {
  const question = report.question(unit);
  const judge = report.judge(unit);
  const body = h('div', { class: 'unit-body', 'aria-busy': 'true' }, h('p', { class: 'loading' }, 'Loading the trace …'));
  report.detail(unit).then(
    (detail) => body.replaceChildren(...parts(report, route, unit, detail)),
    (error: unknown) => body.replaceChildren(h('p', { class: 'callout v-failed' }, shown(String(error)))),
  ).finally(() => body.removeAttribute('aria-busy'));
  const step = (by: number, name: string) => {
    const other = near.units[near.place + by];
    return near.place < 0 || !other ? h('span', { class: 'quiet' }, name)
      : h('a', { href: link(route, { unit: other.id, page: route.page }), rel: by < 0 ? 'prev' : 'next' }, name);
  };
  return h('div', { class: 'page unit' },
    h('nav', { class: 'crumbs', 'aria-label': 'Units' },
      h('a', { href: link(route, { view: route.view === 'overview' ? 'units' : route.view, page: route.page }) },
        route.view === 'matrix' ? '← Matrix' : '← Units'),
      h('span', { class: 'quiet' }, near.place < 0 ? '' : `${count(near.place + 1)} of ${count(near.units.length)}`),
      step(-1, 'Previous'), step(1, 'Next')),
    h('header', { class: 'title' }, h('h1', { dir: 'auto' }, badge(unit.verdict), ' ', short(question.id, 128)),
      h('p', { class: 'lead' }, h('strong', null, short(report.model(unit), 80)), judge ? ` judged by ${short(judge, 80)}` : ' without a judge',
        `, replicate ${unit.replicate}`)),
    body);
}

function parts(report: Report, route: Route, unit: Unit, detail: Detail): Node[] {
  const question = report.question(unit);
  const main = [
    reason(detail),
    section('Question', question.question === '' ? h('p', { class: 'quiet' }, 'The text of the question is not in this run.') : block(question.question),
      question.answer ? [h('h3', null, 'Reference answer'), block(question.answer)] : null),
    detail.scenario ? null : section('Answer', detail.response === null ? h('p', { class: 'quiet' }, 'The model gave no final answer.') : block(detail.response, { marks: answerMarks(detail) })),
    outcome(detail), template(detail.template), assertions(detail.assertions), rubric(detail), judging(detail),
    ...others(detail), detail.scenario ? conversation(detail.scenario, messages(detail, () => 'Model'), toggleAll) : trace(detail),
  ];
  return [h('div', { class: 'columns' },
    h('div', { class: 'column' }, ...main), h('aside', { class: 'column side', 'aria-label': 'Facts' }, ...side(report, route, unit, detail)))];
}

function reason(detail: Detail): HTMLElement | null {
  const { failure } = detail;
  if (failure) {
    return h('section', { class: 'callout', 'aria-label': 'Reason' },
      h('p', null, h('strong', null, words(failure.category)), h('span', { class: 'quiet' }, failure.group === failure.category ? '' : ` group ${words(failure.group)},`, ` stage ${short(words(failure.stage), 60)}`)),
      block(failure.reason));
  }
  return detail.reason ? h('section', { class: 'callout', 'aria-label': 'Reason' }, block(detail.reason)) : null;
}

function rubric(detail: Detail): HTMLElement | null {
  const traits = detail.rubric?.traits ?? [];
  if (traits.length === 0) return null;
  const row = (trait: Trait) => h('tr', null,
    h('th', { scope: 'row' }, short(trait.name, 80)), h('td', null, traitValue(trait)),
    h('td', null, ...[trait.absent, trait.failed, trait.reasoning].map((text) => text ? block(text) : null)));
  return h('section', { class: 'card' }, h('h2', null, 'Traits'),
    scrolling('Traits', h('table', { class: 'fields traits' },
      h('thead', null, h('tr', null, ...['Trait', 'Value', 'Reason'].map((name) => h('th', { scope: 'col' }, name)))),
      h('tbody', null, ...traits.map(row)))));
}

/** The value of a trait. A value with a direction has the sign of a check. */
function traitValue({ value, absent, failed, higher_is_better: isHigherBetter }: Trait): Child {
  if (absent !== undefined) return h('span', { class: 'quiet' }, 'not present');
  if (failed !== undefined) return h('span', { class: 'error-text' }, 'not evaluated');
  if (value === undefined) return NONE;
  if ('boolean' in value) {
    const text = value.boolean ? 'yes' : 'no';
    return isHigherBetter === undefined ? text : check(value.boolean === isHigherBetter, text);
  }
  if ('score' in value) return `${count(value.score.score)} of ${count(value.score.min)} to ${count(value.score.max)}`;
  if ('class' in value) return value.class.name === undefined ? h('span', { class: 'quiet' }, 'no class') : short(value.class.name, 120);
  return block(indented('metrics' in value ? JSON.stringify(value.metrics) : value.object), { code: true });
}

function judging(detail: Detail): HTMLElement | null {
  const excerpts = detail.excerpts ?? [];
  if (!detail.judge_reasoning && excerpts.length === 0) return null;
  return section('Judge', detail.judge_reasoning ? block(detail.judge_reasoning) : null,
    excerpts.length === 0 ? null : [h('h3', null, 'Excerpts'), h('ul', { class: 'excerpts' }, ...excerpts.map((excerpt) =>
      h('li', null, h('strong', null, subject(excerpt)), ' ',
        h('q', { class: 'text' }, shown(excerpt.text)),
        excerpt.quoted === undefined ? null : h('span', { class: 'quiet text' }, ' quoted by the judge as ', h('q', null, shown(excerpt.quoted))),
        excerpt.similarity === undefined ? null : h('span', { class: 'quiet' }, ` similarity ${percent(excerpt.similarity, 0)}`))))]);
}

function others(detail: Detail): HTMLElement[] {
  return Object.entries(detail).filter(([name, value]) => !KNOWN.has(name) && value !== null && value !== undefined)
    .map(([name, value]) => section(words(short(name, 60)), block(indented(JSON.stringify(value)), { code: true })));
}

/** The places of results by their calls. Ids may repeat: a result belongs to the first call with its id that has none yet. */
function pairs(trace: Message[]): Map<Call, number> {
  const open: Call[] = [];
  const results = new Map<Call, number>();
  trace.forEach((message, place) => {
    open.push(...message.calls ?? []);
    const called = message.result ? open.findIndex(({ id }) => id === message.result?.id) : -1;
    const [call] = called < 0 ? [] : open.splice(called, 1);
    if (call) results.set(call, place);
  });
  return results;
}

/** The messages of a trace as list items, each at the place of its message. The result of a call is shown with its call. */
function messages(detail: Detail, who: (turn: number) => string): (HTMLElement | null)[] {
  const results = pairs(detail.trace);
  const paired = new Set(results.values());
  const result = (message: Message, place: number, name: string) => output(message, name, messageMarks(detail, place));
  let turn = 0;
  return detail.trace.map((message, place) => {
    if (paired.has(place)) return null;
    if (message.result) return h('li', null, result(message, place, 'Result without a call'));
    if (message.role === 'assistant') turn += 1;
    return h('li', null, h('div', { class: 'turn' },
      h('p', { class: 'who' }, message.role === 'assistant' ? who(turn) : words(short(message.role, 20)),
        message.usage ? h('span', { class: 'quiet' }, ` ${count(message.usage.input_tokens)} in, ${count(message.usage.output_tokens)} out`) : null),
      message.thinking ? h('details', { class: 'thinking' }, h('summary', null, 'Reasoning of the model'), block(message.thinking)) : null,
      message.content === '' ? null : block(message.content, { marks: messageMarks(detail, place) }),
      ...(message.calls ?? []).map((call) => {
        const answered = results.get(call) ?? -1;
        const answer = detail.trace[answered];
        return h('div', { class: answer?.result?.is_error ? 'call failed' : 'call' },
          h('p', { class: 'who' }, h('span', { class: 'tool' }, short(call.name, 120)), answer ? null : h('span', { class: 'quiet' }, ' no result on record')),
          block(indented(call.input), { code: true }),
          answer ? result(answer, answered, 'Result') : null);
      })));
  });
}

function trace(detail: Detail): HTMLElement {
  const items = messages(detail, (turn) => `Turn ${turn}`).filter((item) => item !== null);
  const buttons = h('button', { type: 'button', class: 'more', click: () => toggleAll() }, 'Expand all');
  return h('section', { class: 'card trace' }, h('h2', null, 'Trace', h('span', { class: 'aside' }, buttons)),
    items.length === 0 ? h('p', { class: 'quiet' }, 'The model and the tools left no message.') : h('ol', { class: 'messages' }, ...items));
}

/** Expands every text of the page, or collapses all of them if none is left to expand. */
export function toggleAll(): void {
  const buttons = [...document.querySelectorAll<HTMLButtonElement>('[data-expand]')];
  const closed = buttons.filter((button) => button.getAttribute('aria-expanded') !== 'true');
  (closed.length > 0 ? closed : buttons).forEach((button) => button.click());
  document.querySelectorAll('details').forEach((element) => { element.open = closed.length > 0 || !element.open; });
}

function output(message: Message, name: string, marks: Mark[]): HTMLElement {
  const isError = message.result?.is_error ?? false;
  return h('div', { class: isError ? 'output failed' : 'output' },
    h('p', { class: 'who' }, name, isError ? h('span', { class: 'error-text' }, ' error') : null),
    message.content === '' ? h('p', { class: 'quiet' }, 'empty') : block(message.content, { code: true, marks }),
    message.result?.output ? h('details', null, h('summary', null, 'Result as received'), block(indented(message.result.output), { code: true })) : null);
}

function side(report: Report, route: Route, unit: Unit, detail: Detail): HTMLElement[] {
  const same = report.byQuestion[unit.question] ?? [];
  const byModel = report.overview.models.map((model, number) => ({ model, units: same.filter((other) => other.model === number) }));
  const fact = (name: string, value: Child) => h('div', null, h('dt', null, name), h('dd', null, value));
  const retries = Object.entries(detail.retries ?? {}).map(([kind, times]) => `${words(short(kind, 40))} × ${times}`).join(', ');
  const keywords = detail.keywords ?? [];
  return [
    h('section', { class: 'card' }, h('h2', null, 'Same question'), h('dl', { class: 'facts' }, ...byModel.filter(({ units }) => units.length > 0)
      .map(({ model, units }) => fact(short(model.label, 40), dots(report, units, (other) => {
        const mark = dot(report, other, route);
        if (other === unit) mark.setAttribute('aria-current', 'true');
        return mark;
      }))))),
    h('section', { class: 'card' }, h('h2', null, 'Facts'), h('dl', { class: 'facts' },
      fact('Time', duration(detail.millis)), fact('Turns', count(detail.turns)), fact('Tool calls', count(detail.tool_calls)),
      detail.limit_reached ? fact('Limit', 'reached') : null,
      retries === '' ? null : fact('Retries', retries),
      (detail.caveats ?? []).length > 0 ? fact('Caveats', (detail.caveats ?? []).map(words).join(', ')) : null,
      keywords.length > 0 ? fact('Keywords', keywords.map((keyword) => short(keyword, 60)).join(', ')) : null)),
    h('section', { class: 'card' }, h('h2', null, 'Usage'), usage(detail.usage, detail.judge ? detail.judge_usage : null)),
    h('section', { class: 'card' }, h('h2', null, 'Identity'), h('dl', { class: 'facts' },
      fact('Model', short(`${detail.model.interface}:${detail.model.model}`, 120)),
      detail.model.actual_model ? fact('Responded', short(detail.model.actual_model, 120)) : null,
      detail.judge ? fact('Judge', short(`${detail.judge.interface}:${detail.judge.model}`, 120)) : null,
      fact('Unit', h('code', null, short(detail.unit, 80))), fact('Trial', h('code', null, short(detail.trial, 80))),
      fact('Tool set', h('code', null, short(detail.tool_set, 80))))),
  ];
}

function usage(answer: Usage, judge: Usage | null): HTMLElement {
  const used = [answer, judge].reduce((sum, some) => sum + (some ? some.input_tokens + some.output_tokens : 0), 0);
  if (used === 0) return h('p', { class: 'quiet' }, 'No tokens were reported.');
  const rows: [string, (usage: Usage) => string][] = [
    ['Input', (some) => count(some.input_tokens)], ['Cached', (some) => count(some.cache_read_tokens ?? 0)],
    ['Output', (some) => count(some.output_tokens)], ['Reasoning', (some) => count(some.reasoning_tokens ?? 0)],
    ['Cost', (some) => money(some.cost_usd)],
  ];
  return h('table', { class: 'usage' },
    h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'Tokens'), h('th', { scope: 'col', class: 'num' }, 'Answer'), judge ? h('th', { scope: 'col', class: 'num' }, 'Judge') : null)),
    h('tbody', null, ...rows.map(([name, value]) => h('tr', null, h('th', { scope: 'row' }, name),
      h('td', { class: 'num' }, value(answer)), judge ? h('td', { class: 'num' }, value(judge)) : null))));
}
