// The state of the page is its fragment, so that every view is a link.
import { VERDICTS, type Verdict } from './data';

export type View = 'overview' | 'matrix' | 'units';
export interface Filter {
  verdicts: Verdict[]; model: string; judge: string; keyword: string; category: string; text: string;
}
export interface Route { view: View; unit: string | null; page: number; sort: string; filter: Filter }

export const NO_FILTER: Filter = { verdicts: [], model: '', judge: '', keyword: '', category: '', text: '' };

export function parse(fragment: string): Route {
  const params = new URLSearchParams(fragment.replace(/^#/, ''));
  const get = (name: string) => params.get(name) ?? '';
  const view = get('view');
  return {
    view: view === 'matrix' || view === 'units' ? view : 'overview',
    unit: params.get('u'),
    page: Math.max(1, Number.parseInt(get('page'), 10) || 1),
    sort: get('sort'),
    filter: {
      verdicts: get('verdict').split(',').filter((name): name is Verdict => VERDICTS.includes(name as Verdict)),
      model: get('model'), judge: get('judge'), keyword: get('keyword'), category: get('category'), text: get('q'),
    },
  };
}

export function fragment(route: Route): string {
  const { filter } = route;
  const params = new URLSearchParams();
  const set = (name: string, value: string) => { if (value !== '') params.set(name, value); };
  set('view', route.view === 'overview' ? '' : route.view);
  set('verdict', filter.verdicts.join(','));
  set('model', filter.model);
  set('judge', filter.judge);
  set('keyword', filter.keyword);
  set('category', filter.category);
  set('q', filter.text);
  set('sort', route.sort);
  set('page', route.page > 1 ? String(route.page) : '');
  set('u', route.unit ?? '');
  return `#${params}`;
}

/** Returns the link to a route that differs from another one. */
export function link(route: Route, change: Partial<Route>): string {
  return fragment({ ...route, unit: null, page: 1, ...change });
}

export function isFiltered(filter: Filter): boolean {
  return fragment({ view: 'overview', unit: null, page: 1, sort: '', filter }) !== '#';
}
