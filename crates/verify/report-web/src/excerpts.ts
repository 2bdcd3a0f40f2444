// Where the excerpts of a judge stand in the texts of a unit.
import type { Detail, Excerpt } from './data';
import { short } from './text';

/** A marked part of a text, in UTF-16 units, and what it supports. */
export interface Mark { from: number; to: number; about: string }

export function subject(excerpt: Excerpt): string {
  return short(excerpt.attribute ?? excerpt.name ?? '', 80);
}

/** Returns the excerpts in the final answer. */
export function answerMarks(detail: Detail): Mark[] {
  const text = detail.response ?? '';
  return (detail.excerpts ?? []).flatMap((excerpt) => atPosition(text, excerpt) ?? firstOccurrence(text, excerpt));
}

/** Returns the excerpts in a message of the trace. */
export function messageMarks(detail: Detail, place: number): Mark[] {
  const text = detail.trace[place]?.content ?? '';
  return (detail.excerpts ?? []).flatMap((excerpt) => {
    if (excerpt.start === undefined) return firstOccurrence(text, excerpt);
    return excerpt.message === place ? atPosition(text, excerpt) ?? firstOccurrence(text, excerpt) : [];
  });
}

/** Positions count characters. A text that was cut, or a position of another text, does not hold the excerpt. */
function atPosition(text: string, excerpt: Excerpt): Mark[] | null {
  if (excerpt.start === undefined || excerpt.end === undefined) return null;
  const from = offset(text, excerpt.start);
  const to = from + offset(text.slice(from), excerpt.end - excerpt.start);
  return text.slice(from, to) === excerpt.text && to > from ? [{ from, to, about: subject(excerpt) }] : null;
}

function firstOccurrence(text: string, excerpt: Excerpt): Mark[] {
  const from = excerpt.text === '' ? -1 : text.indexOf(excerpt.text);
  return from < 0 ? [] : [{ from, to: from + excerpt.text.length, about: subject(excerpt) }];
}

/** Returns the place of a character in UTF-16 units. */
function offset(text: string, characters: number): number {
  let at = 0;
  for (let left = characters; left > 0 && at < text.length; left -= 1) at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
  return at;
}
