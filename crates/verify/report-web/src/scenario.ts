// A scenario: its criteria, and its turns in order, each with its message, checks and trace.
import { assertions, template } from './checks';
import type { Detail, Scenario, ScenarioTurn } from './data';
import { h, type Child } from './dom';
import { count, words } from './format';
import { check } from './marks';
import { block, short, shown } from './text';

/** The criteria, the variables and the path of a scenario. */
export function outcome({ scenario }: Detail): HTMLElement | null {
  if (!scenario) return null;
  const criteria = scenario.outcome ?? [];
  const variables = Object.entries(scenario.state ?? {});
  const fact = (name: string, value: Child) => h('div', null, h('dt', null, name), h('dd', null, value));
  return h('section', { class: 'card' }, h('h2', null, 'Scenario'),
    criteria.length === 0 ? null : h('ul', { class: 'checks' }, ...criteria.map((criterion) =>
      h('li', null, check(criterion.passed ?? null), h('span', { class: 'text' }, shown(criterion.name)),
        criterion.reason ? h('span', { class: 'quiet text' }, shown(criterion.reason)) : null))),
    h('dl', { class: 'facts' },
      fact('Path', scenario.turns.map(({ turn }) => short(turn, 64)).join(' → ')), fact('End', words(short(scenario.end, 40))),
      scenario.steering_judge ? fact('Steering judge', short(scenario.steering_judge, 80)) : null,
      ...variables.map(([name, value]) => fact(short(name, 64), block(value, { code: true })))));
}

/** The turns of a scenario. `messages` are the items of the trace, at their places. */
export function conversation(scenario: Scenario, messages: (HTMLElement | null)[], toggle: () => void): HTMLElement {
  let next = 0;
  const turns = scenario.turns.map((turn, place) => {
    const own = messages.slice(next, next + turn.messages).filter((item) => item !== null);
    next += turn.messages;
    return h('li', null, taken(turn, place, own));
  });
  const button = h('button', { type: 'button', class: 'more', click: () => toggle() }, 'Expand all');
  return h('section', { class: 'card trace' }, h('h2', null, 'Conversation', h('span', { class: 'aside' }, button)),
    h('ol', { class: 'messages conversation' }, ...turns));
}

function taken(turn: ScenarioTurn, place: number, messages: HTMLElement[]): HTMLElement {
  const hasChecks = turn.template !== undefined || (turn.assertions ?? []).length > 0;
  return h('section', { class: 'scenario-turn', 'aria-label': `Turn ${count(place + 1)} of the conversation` },
    h('h3', null, `${count(place + 1)}. `, short(turn.turn, 64), ' ', hasChecks ? check(turn.passed ?? null) : null),
    h('div', { class: 'turn user' }, h('p', { class: 'who' }, 'User'), block(turn.prompt)),
    messages.length === 0 ? h('p', { class: 'quiet' }, 'The model and the tools left no message.') : h('ol', { class: 'messages' }, ...messages),
    template(turn.template), assertions(turn.assertions));
}
