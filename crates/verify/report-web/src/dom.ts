// Elements. Data reaches the page through text nodes and attribute values only; no function here parses HTML.

export type Child = Node | string | number | null | undefined | false | Child[];
type Props = Record<string, string | number | boolean | null | undefined | ((event: never) => void)>;

const SVG = 'http://www.w3.org/2000/svg';

function fill(element: Element, props: Props | null, children: Child[]): void {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') element.addEventListener(name, value as EventListener);
    else if (name === 'href' && !String(value).startsWith('#')) throw new Error('a link of the report stays in the report');
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  append(element, children);
}

export function append(parent: Node, children: Child): void {
  if (Array.isArray(children)) children.forEach((child) => append(parent, child));
  else if (children instanceof Node) parent.appendChild(children);
  else if (children !== null && children !== undefined && children !== false) {
    parent.appendChild(document.createTextNode(String(children)));
  }
}

/** Creates an element. Functions become listeners of the event with their name. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K, props?: Props | null, ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  fill(element, props ?? null, children);
  return element;
}

/** Creates an SVG element. */
export function svg(tag: string, props?: Props | null, ...children: Child[]): SVGElement {
  const element = document.createElementNS(SVG, tag);
  fill(element, props ?? null, children);
  return element;
}

/** A table that scrolls on its own. Keyboard users must be able to scroll it, so it can have the focus. */
export function scrolling(label: string, table: HTMLTableElement): HTMLElement {
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label }, table);
}
