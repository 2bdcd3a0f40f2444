// Which units a filter selects.
import type { Report, Unit } from './data';
import type { Filter } from './route';

/** Returns the units of a filter, in the order of the run. Answers are searched when they are loaded. */
export function selected(report: Report, filter: Filter, answers: string[] | null): Unit[] {
  const { overview } = report;
  const terms = filter.text.toLowerCase().split(/\s+/).filter((term) => term !== '');
  const model = filter.model === '' ? null : overview.models.findIndex(({ label }) => label === filter.model);
  const judge = filter.judge === '' ? null : overview.judges.findIndex(({ label }) => label === filter.judge);
  const questions = overview.questions.map(({ id, question, answer, keywords }) =>
    [id, question, answer ?? '', ...(keywords ?? [])].join('\n').toLowerCase());
  const models = overview.models.map(({ label }) => label.toLowerCase());
  const matchesText = (unit: Unit) => terms.every((term) =>
    (questions[unit.question] ?? '').includes(term) || (models[unit.model] ?? '').includes(term) ||
    unit.id.startsWith(term) || (answers?.[unit.index] ?? '').includes(term));
  return report.units.filter((unit) =>
    (filter.verdicts.length === 0 || filter.verdicts.includes(unit.verdict)) &&
    (model === null || unit.model === model) &&
    (judge === null || unit.judge === judge) &&
    (filter.keyword === '' || (overview.questions[unit.question]?.keywords ?? []).includes(filter.keyword)) &&
    (filter.category === '' || (unit.category ?? 'none') === filter.category &&
      (filter.category !== 'none' || unit.verdict !== 'passed')) &&
    (terms.length === 0 || matchesText(unit)));
}
