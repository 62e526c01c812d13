/** `npm run test:long` tries every case of an exhaustive test, `npm test` a sample that covers each rule. */
export const isExhaustive = process.env.TEST_DEPTH === 'exhaustive';
