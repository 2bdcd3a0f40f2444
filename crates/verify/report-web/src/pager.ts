// Pages of long lists.
import { h } from './dom';
import { count } from './format';
import { link, type Route } from './route';

export const PAGE_ROWS = 100;

export function slice<T>(list: T[], page: number): T[] {
  return list.slice((page - 1) * PAGE_ROWS, page * PAGE_ROWS);
}

/** Links to the pages before and after. Nothing if one page is enough. */
export function pager(route: Route, rows: number): HTMLElement | null {
  const pages = Math.ceil(rows / PAGE_ROWS);
  if (pages < 2) return null;
  const to = (page: number, name: string) => page < 1 || page > pages
    ? h('span', { class: 'quiet' }, name) : h('a', { href: link(route, { page }) }, name);
  const first = (route.page - 1) * PAGE_ROWS + 1;
  return h('nav', { class: 'pager', 'aria-label': 'Pages' }, to(route.page - 1, '← Previous'),
    h('span', null, `${count(first)} – ${count(Math.min(rows, first + PAGE_ROWS - 1))} of ${count(rows)}`), to(route.page + 1, 'Next →'));
}
