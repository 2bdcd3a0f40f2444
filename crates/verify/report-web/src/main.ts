// The page: routes, keys and the theme.
import './style.css';
import { Report, type Unit } from './data';
import { h } from './dom';
import { selected } from './filter';
import { count } from './format';
import { matrix } from './matrix';
import { overview } from './overview';
import { PAGE_ROWS } from './pager';
import { fragment, link, parse, type Route, type View } from './route';
import { currentTheme, switchTheme } from './theme';
import { shown } from './text';
import { toggleAll, unitPage } from './unit';
import { filters, title, unitList } from './units';

const SEARCH_DELAY = 150;
const VIEWS: [View, string][] = [['overview', 'Overview'], ['matrix', 'Matrix'], ['units', 'Units']];
const KEYS: [string, string][] = [
  ['1, 2, 3', 'Overview, matrix, units'], ['/', 'Search ids, questions and answers'], ['j, k', 'Next, previous unit'],
  ['Enter', 'Open the unit'], ['Escape', 'Back, or leave the search'], ['e', 'Expand or collapse all texts of a unit'],
  ['t', 'Light or dark'], ['?', 'This help'],
];

class Page {
  private route: Route = parse(location.hash);
  private answers: string[] | null = null;
  private found: Unit[] = [];
  private readonly main = h('main', { id: 'main', tabindex: -1 });
  private readonly search = h('input', { type: 'search', placeholder: 'Search', 'aria-label': 'Search ids, questions and answers', autocomplete: 'off', spellcheck: 'false' });
  private readonly tabs: HTMLAnchorElement[];
  private readonly help: HTMLDialogElement;
  private timer = 0;

  constructor(private readonly report: Report, root: HTMLElement) {
    this.tabs = VIEWS.map(([view, name]) => h('a', { 'data-view': view },
      name, view === 'units' ? h('span', { class: 'quiet' }, ` ${count(report.units.length)}`) : null));
    this.help = h('dialog', { 'aria-label': 'Keyboard' }, h('h2', null, 'Keyboard'),
      h('dl', { class: 'keys' }, ...KEYS.map(([key, what]) => h('div', null, h('dt', null, ...key.split(', ').map((one) => h('kbd', null, one))), h('dd', null, what)))),
      h('button', { type: 'button', click: () => this.help.close() }, 'Close'));
    const theme = h('button', { type: 'button', class: 'icon', 'aria-label': 'Light or dark', title: 'Light or dark (t)', click: () => switchTheme() }, '◐');
    const help = h('button', { type: 'button', class: 'icon', 'aria-label': 'Keyboard help', title: 'Keyboard (?)', click: () => this.help.showModal() }, '?');
    root.replaceChildren(
      h('button', { type: 'button', class: 'skip', click: () => this.main.focus() }, 'Skip to content'),
      h('header', { class: 'bar' }, h('span', { class: 'brand' }, 'Wharf'), h('nav', { 'aria-label': 'Views' }, ...this.tabs),
        h('div', { class: 'tools', role: 'search' }, this.search, theme, help)),
      this.main, this.help);
    this.search.addEventListener('input', () => this.typed());
    addEventListener('hashchange', () => this.render(true));
    addEventListener('keydown', (event) => this.key(event));
    this.render(false);
  }

  private typed(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const filter = { ...this.route.filter, text: this.search.value };
      const view = this.route.view === 'matrix' ? 'matrix' : 'units';
      history.replaceState(null, '', fragment({ ...this.route, view, unit: null, page: 1, filter }));
      this.render(false);
    }, SEARCH_DELAY);
  }

  private render(isNavigation: boolean): void {
    const { report } = this;
    const before = this.route;
    this.route = parse(location.hash);
    const { route } = this;
    if (route.filter.text !== '' && this.answers === null) {
      report.texts().then((answers) => { this.answers = answers; this.render(false); }, () => { this.answers = []; });
    }
    if (document.activeElement !== this.search) this.search.value = route.filter.text;
    this.found = selected(report, route.filter, this.answers);
    const unit = route.unit === null ? undefined : report.find(route.unit);
    document.title = title(report, unit);
    for (const tab of this.tabs) {
      const view = tab.getAttribute('data-view') as View;
      tab.setAttribute('href', link(route, { view, sort: '' }));
      if (view === route.view && !unit) tab.setAttribute('aria-current', 'page');
      else tab.removeAttribute('aria-current');
    }
    this.main.replaceChildren(this.content(unit));
    if (!isNavigation) return;
    const left = before.unit === null || route.unit !== null ? null : this.rowLink(before.unit);
    if (left) left.focus();
    else if (before.unit !== route.unit || before.view !== route.view || before.page !== route.page) {
      scrollTo(0, 0);
      this.main.focus({ preventScroll: true });
    }
  }

  private content(unit: Unit | undefined): HTMLElement {
    const { report, route, found } = this;
    if (unit) return unitPage(report, route, unit, { units: found, place: found.indexOf(unit) });
    if (route.unit !== null) {
      return h('div', { class: 'page' }, h('p', { class: 'callout' }, 'This report has no unit ', h('code', null, shown(route.unit.slice(0, 200))), '. ',
        h('a', { href: link(route, { view: 'units' }) }, 'All units')));
    }
    if (route.view === 'overview') return overview(report, route);
    const isSearching = route.filter.text !== '' && this.answers === null;
    return h('div', { class: 'page' }, h('h1', { class: 'sr' }, route.view === 'matrix' ? 'Matrix' : 'Units'), filters(report, route),
      route.view === 'matrix' ? matrix(report, route, found) : unitList(report, route, found, isSearching));
  }

  private rowLink(unit: string): HTMLElement | null {
    const row = [...this.main.querySelectorAll('tr[data-unit]')].find((element) => element.getAttribute('data-unit') === unit);
    return row?.querySelector<HTMLElement>('a.open') ?? null;
  }

  /** Moves to the unit before or after, within the list, over its pages, or between the pages of units. */
  private move(by: number): void {
    const { route, found } = this;
    if (route.unit !== null) {
      const next = found[found.findIndex(({ id }) => id === route.unit) + by];
      if (next) location.hash = link(route, { unit: next.id, page: Math.floor(found.indexOf(next) / PAGE_ROWS) + 1 });
      return;
    }
    const links = [...this.main.querySelectorAll<HTMLElement>(route.view === 'units' ? 'a.open' : 'a.dot')];
    const place = links.indexOf(document.activeElement as HTMLElement);
    const next = links[place < 0 ? 0 : place + by];
    if (next) {
      next.focus();
      next.scrollIntoView({ block: 'nearest' });
    } else if (place >= 0) {
      const page = this.main.querySelector<HTMLElement>(by > 0 ? '.pager a:last-child' : '.pager a:first-child');
      if (page) {
        page.click();
        setTimeout(() => this.move(by), 50);
      }
    }
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || this.help.open) return;
    const target = event.target as HTMLElement;
    if (event.key === 'Escape') {
      if (target === this.search) this.search.blur();
      else if (this.route.unit !== null) location.hash = link(this.route, { view: this.route.view === 'overview' ? 'units' : this.route.view, page: this.route.page });
      else if (this.route.view !== 'overview') location.hash = link(this.route, { view: 'overview', sort: '' });
      return;
    }
    if (target.matches('input, select, textarea')) {
      if (event.key === 'Enter' && target === this.search) this.main.querySelector<HTMLElement>('a.open, a.dot')?.focus();
      return;
    }
    const view = VIEWS[Number(event.key) - 1];
    if (event.key === '/') this.search.select();
    else if (event.key === '?') this.help.showModal();
    else if (event.key === 't') switchTheme();
    else if (event.key === 'e' && this.route.unit !== null) toggleAll();
    else if (event.key === 'j') this.move(1);
    else if (event.key === 'k') this.move(-1);
    else if (view) location.hash = link(this.route, { view: view[0], sort: '' });
    else return;
    event.preventDefault();
  }
}

const root = document.getElementById('app') as HTMLElement;
currentTheme();
Report.load().then(
  (report) => new Page(report, root),
  (error: unknown) => root.replaceChildren(h('p', { class: 'loading', role: 'alert' }, 'Cannot show this report: ', shown(String(error)))),
);
