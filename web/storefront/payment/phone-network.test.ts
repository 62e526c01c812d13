import { expect, test } from 'vitest';
import { otherNetworkOf } from './phone-network.ts';

test.each([
  ['+254733123456', 'Airtel'],
  ['+254780123456', 'Airtel'],
  ['+254100123456', 'Airtel'],
  ['+254772123456', 'Telkom'],
  ['+254764123456', 'Equitel'],
  ['+254747123456', 'Faiba'],
  ['+254712345678', null],
  ['+254110345678', null],
  ['+254757345678', null],
  ['+254768345678', null],
])('recognises the network of %s as %s', (phone, network) => expect(otherNetworkOf(phone)).toBe(network));
