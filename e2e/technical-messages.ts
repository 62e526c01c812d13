// Finds messages to people that speak of databases, protocols or programs.

/** Words of databases, protocols and programs, which no person is shown. */
const technicalWords =
  /row-level|\bviolates?\b|\bconstraint\b|\brelation\b|null value|duplicate key|PGRST|\bJWT\b|TOTP|\bfunction\b|\bundefined\b|\bNaN\b|Failed to fetch(?! order details)|TypeError|\[object /i;

/** The messages that hold such words. */
export const technicalMessages = (messages: readonly string[]): string[] =>
  messages.filter((text) => technicalWords.test(text));
