// Which of the formats a client accepts it gets.
import { Fault } from './fault.ts';

export interface MediaType {
  /** `text` and `bytes`: the one value of a function whose result is of that media type. */
  format: 'json' | 'object' | 'csv' | 'text' | 'bytes';
  isNullStripped: boolean;
  contentType: string;
}

const json: MediaType = {
  format: 'json',
  isNullStripped: false,
  contentType: 'application/json; charset=utf-8',
};

/**
 * Chooses the format of the answer.
 * @param accept the Accept header; null when there is none
 * @returns the first acceptable format, in the order of the client's weights
 * @throws Fault PGRST107 when none of them can be produced
 */
export function chooseMediaType(accept: string | null): MediaType {
  if (!accept || accept === '*/*' || accept === 'application/json') return json;
  const ranges = accept
    .split(',')
    .map(parseRange)
    .filter(({ weight }) => weight > 0)
    .sort((a, b) => b.weight - a.weight);
  for (const { type, isNullStripped } of ranges) {
    switch (type) {
      case '*/*':
      case 'application/*':
      case 'application/json':
        return json;
      case 'application/vnd.pgrst.object+json':
      case 'application/vnd.pgrst.object':
        return {
          format: 'object',
          isNullStripped,
          contentType: `application/vnd.pgrst.object+json${isNullStripped ? ';nulls=stripped' : ''}; charset=utf-8`,
        };
      case 'application/vnd.pgrst.array+json':
      case 'application/vnd.pgrst.array':
        if (!isNullStripped) return json;
        return {
          format: 'json',
          isNullStripped,
          contentType: 'application/vnd.pgrst.array+json;nulls=stripped; charset=utf-8',
        };
      case 'text/csv':
        return { format: 'csv', isNullStripped: false, contentType: 'text/csv; charset=utf-8' };
    }
  }
  throw new Fault(406, {
    code: 'PGRST107',
    message: `None of these media types are available: ${ranges.map(({ text }) => text).join(', ') || accept}`,
  });
}

/**
 * Whether a function's own media type is what the client wants most.
 * @param accept the Accept header; null when there is none
 * @param type a media type such as `text/plain`
 */
export function prefersMediaType(accept: string | null, type: string): boolean {
  const ranges = (accept ?? '*/*').split(',').map(parseRange);
  const [first] = ranges.filter(({ weight }) => weight > 0).sort((a, b) => b.weight - a.weight);
  return first?.type === type || first?.type === '*/*';
}

/** The media type of a function's own kind of result. */
export function ownMediaType(type: string, isBinary: boolean): MediaType {
  const isNamed = type === 'text/plain' || type === 'text/xml' || type === 'text/csv';
  return {
    format: isBinary ? 'bytes' : 'text',
    isNullStripped: false,
    contentType: isNamed ? `${type}; charset=utf-8` : type,
  };
}

function parseRange(range: string) {
  const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
  const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2);
  return {
    type,
    text: range.trim(),
    isNullStripped: parameters.includes('nulls=stripped'),
    weight: weight === undefined ? 1 : Number(weight) || 0,
  };
}
