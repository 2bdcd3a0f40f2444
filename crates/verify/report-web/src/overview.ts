// The first view: what was measured, how good each model is, what it costs, and what to look at next.
import { accuracy, costs, failures, keywords } from './charts';
import { VERDICTS, type ModelResult, type Report } from './data';
import { h, scrolling, svg, type Child } from './dom';
import { NONE, count, day, duration, money, percent, plural, tokens, words } from './format';
import { dot, sign } from './marks';
import { NO_FILTER, link, type Filter, type Route } from './route';
import { plain, short, shown } from './text';

/** Below this number of scored units an interval is wide, and the report says so. */
const SMALL_SAMPLE = 30;
const FLAKY_ROWS = 15;

export function overview(report: Report, route: Route): HTMLElement {
  const data = report.overview;
  const units = (filter: Partial<Filter>) => link(route, { view: 'units', filter: { ...NO_FILTER, ...filter } });
  return h('div', { class: 'page' },
    head(report), totals(report, units), notes(report), models(report, units),
    h('div', { class: 'grid' }, accuracy(data.results), costs(data.results),
      failures(data, (category, model) => units({ category, model })),
      keywords(data, (keyword, model) => units({ keyword, model }))),
    compared(report), judges(report), flaky(report, route));
}

/** How the other models differ from the most accurate one, and whether that may be chance. */
function compared(report: Report): HTMLElement | null {
  const models = report.overview.compared;
  const [first] = models;
  if (!first) return null;
  const points = (share: number) => `${share > 0 ? '+' : share < 0 ? '−' : ''}${(Math.abs(share) * 100).toFixed(1)}`;
  const outcome = (model: (typeof models)[number]) => ({ regression: 'significantly worse', improvement: 'significantly better',
    not_significant: 'may be chance', nothing_compared: 'nothing to compare' })[model.outcome];
  const row = (model: (typeof models)[number]) => h('tr', null,
    h('th', { scope: 'row' }, short(model.model, 60)), h('td', { class: 'num' }, count(model.questions)),
    h('td', { class: 'num' }, model.difference ? points(model.difference.value) : NONE, h('span', { class: 'sub' },
      model.difference ? `${points(model.difference.low)} to ${points(model.difference.high)}` : '')),
    h('td', { class: 'num' }, count(model.worse)), h('td', { class: 'num' }, count(model.better)),
    h('td', { class: 'num' }, model.p < 0.001 ? '< 0.001' : model.p.toFixed(3)), h('td', null, outcome(model)));
  const th = (name: string, title = '') => h('th', { scope: 'col', class: 'num', title: title || null }, name);
  return h('section', { class: 'card flush' }, h('h2', null, 'Compared with ', short(first.best, 60)),
    h('p', { class: 'note' }, 'The most accurate model, against each other one over the same questions. Every question counts once.'),
    scrolling('Compared with the most accurate model', h('table', null,
      h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'Model'), th('Questions'),
        th('Difference', 'Percentage points of accuracy; below, the 95% interval of a bootstrap over questions'),
        th('Worse', 'Questions that passed less often'), th('Better', 'Questions that passed more often'),
        th('p', 'McNemar’s exact test, adjusted for the number of pairs of models (Holm)'), h('th', { scope: 'col' }, 'Result'))),
      h('tbody', null, ...models.map(row)))));
}

/** How far each pair of judges agrees, if there are more than two. */
function judges(report: Report): HTMLElement | null {
  const pairs = report.overview.agreement?.pairs ?? [];
  if (pairs.length < 2) return null;
  const row = (pair: (typeof pairs)[number]) => h('tr', null,
    h('th', { scope: 'row' }, pair.judges.map((judge) => short(judge, 40)).join(' and ')), h('td', { class: 'num' }, count(pair.trials)),
    h('td', { class: 'num' }, percent(pair.agreed)), h('td', { class: 'num' }, pair.cohen_kappa === null ? NONE : pair.cohen_kappa.toFixed(2)));
  return h('section', { class: 'card flush' }, h('h2', null, 'Agreement of the judges'), scrolling('Agreement of the judges', h('table', null,
    h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'Judges'), ...['Answers', 'Agreed', 'Cohen’s kappa'].map((name) =>
      h('th', { scope: 'col', class: 'num' }, name)))),
    h('tbody', null, ...pairs.map(row)))));
}

function head(report: Report): HTMLElement {
  const { run, description, models: names, judges, wharf } = report.overview;
  const replicates = report.units.reduce((most, unit) => Math.max(most, unit.replicate), 0);
  const questions = report.byQuestion.filter((units) => units.length > 0).length;
  const plan = [plural(questions, 'question'), plural(names.length, 'model'),
    judges.length > 0 && plural(judges.length, 'judge'), replicates > 1 && plural(replicates, 'replicate')];
  return h('header', { class: 'title' },
    h('h1', { dir: 'auto' }, shown(short(run.benchmark, 200))),
    description ? h('p', { class: 'lead', dir: 'auto' }, shown(description)) : null,
    h('dl', { class: 'meta' },
      pair('Run', h('code', null, short(run.id, 80))), pair('Started', day(run.created)), pair('State', short(run.state, 20)),
      pair('Plan', plan.filter((part) => part !== false).join(' × ')),
      judges.length > 0 ? pair('Judged by', judges.map(({ label }) => short(label, 60)).join(', ')) : null,
      pair('Wharf', wharf)));
}

function pair(name: string, value: Child): HTMLElement {
  return h('div', null, h('dt', null, name), h('dd', null, value));
}

function totals(report: Report, units: (filter: Partial<Filter>) => string): HTMLElement {
  const { results, planned } = report.overview;
  const sum = (value: (result: ModelResult) => number | undefined) =>
    results.reduce((total, result) => total + (value(result) ?? 0), 0);
  const counts = { passed: sum((r) => r.passed), failed: sum((r) => r.failed), invalid: sum((r) => r.invalid),
    indeterminate: sum((r) => r.indeterminate) };
  const done = report.units.length;
  const bar = svg('svg', { class: 'verdict-bar', 'aria-hidden': 'true' });
  let from = 0;
  for (const verdict of VERDICTS) {
    const share = done === 0 ? 0 : counts[verdict] / done;
    bar.append(svg('rect', { x: `${from * 100}%`, width: `${share * 100}%`, y: 0, height: '100%', class: `v-${verdict} area` }));
    from += share;
  }
  const isPriced = results.some((r) => r.answers.cost_usd !== undefined || r.judging.cost_usd !== undefined);
  const used = sum((r) => r.answers.input_tokens + r.answers.output_tokens + r.judging.input_tokens + r.judging.output_tokens);
  const tile = (name: string, value: Child, note: Child) =>
    h('div', { class: 'tile' }, h('dt', null, name), h('dd', null, h('span', { class: 'big' }, value), h('span', { class: 'quiet' }, note)));
  const verdict = (name: keyof typeof counts) => h('div', { class: 'tile' },
    h('dt', null, sign(name), name),
    h('dd', null, h('a', { class: 'big', href: units({ verdicts: [name] }) }, count(counts[name])),
      h('span', { class: 'quiet' }, done === 0 ? '' : percent(counts[name] / done), name === 'passed' || name === 'failed' ? '' : ', not scored')));
  return h('section', { class: 'card totals', 'aria-label': 'Totals' }, bar,
    h('dl', { class: 'tiles' }, ...VERDICTS.map(verdict),
      tile('Units', count(done), planned > done ? `of ${count(planned)} planned` : 'all planned'),
      tile('Cost', isPriced ? money(sum((r) => (r.answers.cost_usd ?? 0) + (r.judging.cost_usd ?? 0))) : '–',
        isPriced ? `${money(sum((r) => r.judging.cost_usd))} of it for judges` : 'no known price'),
      tile('Tokens', used === 0 ? NONE : tokens(used), used === 0 ? 'not reported' : 'with judges')));
}

function notes(report: Report): HTMLElement {
  const { results, planned, agreement } = report.overview;
  const invalid = results.reduce((total, { invalid: some }) => total + some, 0);
  const outages = results.reduce((total, { provider_failures: some }) => total + some, 0);
  const indeterminate = results.reduce((total, { indeterminate: some }) => total + some, 0);
  const small = results.filter(({ passed, failed }) => passed + failed < SMALL_SAMPLE);
  const lines: Child[] = ['Accuracy counts passed and failed units only.'];
  if (invalid + indeterminate > 0) {
    lines.push(`${plural(invalid, 'invalid unit')} and ${plural(indeterminate, 'indeterminate unit')} are not scored` +
      (outages > 0 ? `; the provider failed in ${count(outages)} of the invalid ones, and a resumed run tries them again.` : '.'));
  } else lines.push('Every unit was scored.');
  if (planned > report.units.length) {
    lines.push(h('strong', null, `The run is not complete: ${plural(planned - report.units.length, 'unit')} of ${count(planned)} have no result.`));
  }
  if (small.length > 0) {
    lines.push(h('strong', null, `Small sample: fewer than ${SMALL_SAMPLE} scored units for ${small.map(({ model }) => short(model, 40)).join(', ')}. `),
      'Read the interval, not the percentage.');
  }
  if (agreement && agreement.trials > 0) {
    const kappa = agreement.fleiss_kappa === null ? '' : ` (Fleiss’ kappa ${agreement.fleiss_kappa.toFixed(2)})`;
    lines.push(`All ${report.overview.judges.length} judges agree on ${percent(agreement.unanimous)} of ${plural(agreement.trials, 'answer')}${kappa}.`);
  }
  return h('p', { class: 'notes' }, ...lines.flatMap((line) => [line, ' ']));
}

function models(report: Report, units: (filter: Partial<Filter>) => string): HTMLElement {
  const { results, models: names } = report.overview;
  const repeated = results.some((result) => result.repeated !== null);
  const hasPanel = results.some((result) => result.panel !== undefined);
  const hasPaths = results.some((result) => result.path_efficiency !== null);
  const th = (name: string, title = '', align = 'num') => h('th', { scope: 'col', class: align, title: title || null }, name);
  const rows = results.map((result) => {
    const identity = names.find(({ label }) => label === result.model);
    const cell = (...value: Child[]) => h('td', { class: 'num' }, ...value);
    const number = (value: number, verdict: 'passed' | 'failed' | 'invalid' | 'indeterminate') =>
      cell(value === 0 ? h('span', { class: 'quiet' }, '0')
        : h('a', { href: units({ model: result.model, verdicts: [verdict] }) }, count(value)));
    const cost = (result.answers.cost_usd ?? 0) + (result.judging.cost_usd ?? 0);
    const isPriced = result.answers.cost_usd !== undefined;
    const used = result.answers.input_tokens + result.answers.output_tokens;
    const sub = (text: string) => h('span', { class: 'sub' }, text);
    const k = result.repeated ? `k = ${result.repeated.k}` : '';
    const name = identity ? short(`${identity.interface}:${identity.model}`, 80) : '';
    return h('tr', null,
      h('th', { scope: 'row', class: 'model' }, h('a', { href: units({ model: result.model }) }, short(result.model, 60)),
        identity ? h('span', { class: 'sub', title: name }, name) : null),
      h('td', { class: 'num accuracy' }, h('strong', null, percent(result.accuracy)),
        sub(result.interval ? `${percent(result.interval.low)} – ${percent(result.interval.high)}` : 'not scored')),
      hasPanel ? cell(percent(result.panel?.accuracy), sub(words(result.panel?.rule ?? ''))) : null,
      number(result.passed, 'passed'), number(result.failed, 'failed'), number(result.invalid, 'invalid'),
      number(result.indeterminate, 'indeterminate'),
      repeated ? [cell(percent(result.repeated?.pass_at_k), sub(k)), cell(percent(result.repeated?.pass_all_k), sub(k)),
        cell(percent(result.repeated?.agreement))] : null,
      cell(percent(result.tool_success), sub(plural(result.tools.all, 'result'))),
      hasPaths ? cell(percent(result.path_efficiency)) : null,
      cell(isPriced ? money(cost) : NONE, sub(result.answer_cost ? `${money(result.answer_cost.p50)} / ${money(result.answer_cost.p95)}` : 'price unknown')),
      cell(used === 0 ? NONE : tokens(used), sub(used === 0 ? 'not reported' : `${tokens(result.answers.output_tokens)} out`)),
      cell(duration(result.p50_millis), sub(`p95 ${duration(result.p95_millis)}`)));
  });
  return h('section', { class: 'card flush' }, h('h2', null, 'Models'), scrolling('Models', h('table', { class: 'models' },
    h('thead', null, h('tr', null, th('Model', '', ''), th('Accuracy', 'Passed units of all scored units, with the 95% Wilson interval'),
      hasPanel ? th('Panel', 'Accuracy of the answers by the verdict of all judges together') : null,
      th('Passed'), th('Failed'), th('Invalid', 'Not scored: says nothing about the model'),
      th('Indet.', 'Indeterminate: an interrupted step may have had an effect. Not scored'),
      repeated ? [th('pass@k', 'Probability that at least one of k attempts passes'), th('pass^k', 'Probability that all of k attempts pass'),
        th('Stable', 'Probability that two attempts at the same question have the same verdict')] : null,
      th('Tools', 'Tool results that are not failures'),
      hasPaths ? th('Path', 'Path efficiency: the optimal number of calls divided by the number of calls, where a question asserts it') : null,
      th('Cost', 'Answers and judges; below, the median and the 95th percentile of one answer'), th('Tokens', 'Of the answers'),
      th('p50 time', 'Median time of a unit; below, the 95th percentile'))),
    h('tbody', null, ...rows))));
}

function flaky(report: Report, route: Route): HTMLElement | null {
  const { flaky: all, questions } = report.overview;
  const replicates = report.units.some((unit) => unit.replicate > 1);
  if (!replicates) return null;
  const row = (entry: (typeof all)[number]) => {
    const place = questions.findIndex(({ id }) => id === entry.question);
    const units = (report.byQuestion[place] ?? []).filter((unit) =>
      report.model(unit) === entry.model && report.judge(unit) === entry.judge);
    return h('tr', null,
      h('th', { scope: 'row' }, short(entry.question, 60), h('span', { class: 'sub' }, short(questions[place]?.question ?? '', 110))),
      h('td', null, short(entry.model, 40), entry.judge ? h('span', { class: 'sub' }, short(entry.judge, 40)) : null),
      h('td', { class: 'num' }, `${entry.passed} of ${entry.scored}`),
      h('td', null, h('span', { class: 'dots' }, ...units.map((unit) => dot(report, unit, route)))));
  };
  const body = h('tbody', null, ...all.slice(0, FLAKY_ROWS).map(row));
  const table = h('table', { class: 'flaky' }, h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'Question'), h('th', { scope: 'col' }, 'Model'),
    h('th', { scope: 'col', class: 'num' }, 'Passed'), h('th', { scope: 'col' }, 'Attempts'))), body);
  const more = all.length > FLAKY_ROWS ? h('button', { type: 'button', class: 'more', click: () => {
    body.append(...all.slice(FLAKY_ROWS).map(row));
    more?.remove();
  } }, `Show all ${count(all.length)}`) : null;
  return h('section', { class: 'card flush' }, h('h2', null, 'Flaky questions'),
    h('p', { class: 'note' }, all.length === 0 ? 'No question both passed and failed with the same model and judge.'
      : plain(`${plural(all.length, 'combination')} of question, model and judge both passed and failed. The least decided come first.`)),
    all.length === 0 ? null : scrolling('Flaky questions', table), more);
}
