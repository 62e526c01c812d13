// Finds technical terms in messages to users.

/** Technical terms that must not appear on screens. */
const technicalWords =
  /row-level|\bviolates?\b|\bconstraint\b|\brelation\b|null value|duplicate key|PGRST|\bJWT\b|TOTP|\bfunction\b|\bundefined\b|\bNaN\b|Failed to fetch(?! order details)|TypeError|\[object /i;

/** The messages that contain such terms. */
export const technicalMessages = (messages: readonly string[]): string[] =>
  messages.filter((text) => technicalWords.test(text));
