import { describe, expect, test } from 'vitest';
import { isRedirectAllowed, redirectOf } from './redirects.ts';

const settings = {
  siteUrl: 'https://site.example.com',
  redirectAllowList: ['https://*.example.org/welcome', 'https://app.example.net/**', 'phoneapp://callback'],
};

describe('a redirect URL', () => {
  test.each([
    'https://site.example.com',
    'https://site.example.com/any/path?and=query#and-fragment',
    'http://127.0.0.1:5173/welcome',
    'http://[::1]:3000/',
    'https://www.example.org/welcome',
    'https://app.example.net/a/b.c?d=e',
    'phoneapp://callback',
  ])('is %s', (target) => {
    expect(isRedirectAllowed(target, settings)).toBe(true);
  });

  test.each([
    'http://site.example.com',
    'https://site.example.com:8443',
    'https://someone@site.example.com/',
    'https://:secret@site.example.com/',
    'https://site.example.com.evil.net',
    'https://site.example.com@evil.net/',
    'https://evil.net\\@site.example.com/',
    'https://evil.net/?https://site.example.com',
    'https://a.b.example.org/welcome',
    'https://evil.net/.example.org/welcome',
    'https://www.example.org/welcome/further',
    'https://127.0.0.1.evil.net/',
    'http://localhost.evil.net/',
    'https://app.example.net@evil.net/x',
    '//evil.net',
    '/relative',
    'javascript:alert(1)',
    'data:text/html,x',
    '',
  ])('is not %s', (target) => {
    expect(isRedirectAllowed(target, settings)).toBe(false);
  });

  test('is never executable, even if the list allows it', () => {
    expect(isRedirectAllowed('javascript:alert(1)', { ...settings, redirectAllowList: ['**'] })).toBe(false);
  });

  test('falls back to the page the request came from, then to the site', () => {
    const referer = 'https://app.example.net/from';
    expect(redirectOf(['https://evil.net'], referer, settings)).toBe(referer);
    expect(redirectOf(['https://evil.net'], 'https://evil.net', settings)).toBe(settings.siteUrl);
    expect(redirectOf([null, 'phoneapp://callback'], referer, settings)).toBe('phoneapp://callback');
  });
});
