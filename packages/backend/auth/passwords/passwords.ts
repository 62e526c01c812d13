// Password rules and hashes (argon2id). A check takes as long for unknown accounts as for known ones.
import { hash, verify } from '@node-rs/argon2';
import { AuthError } from '../auth-error.ts';
import type { PasswordHashCost, PasswordRules } from '../settings.ts';
import { isCommonPassword } from './common-passwords.ts';

interface WeakPassword {
  message: string;
  reasons: ('length' | 'characters' | 'pwned')[];
}

export interface Passwords {
  /** @returns the hash in PHC form */
  hash(password: string): Promise<string>;
  /** Whether a password matches a hash; without a hash it takes as long and returns false. */
  matches(password: string, hashed: string | null): Promise<boolean>;
  /**
   * The weakness of a password; null for none.
   * @param words of the user, such as the email address, which a password must not consist of
   */
  weakness(password: string, words: readonly string[]): Promise<WeakPassword | null>;
  /** @throws AuthError weak_password (422), validation_failed (400) when longer than 72 bytes */
  check(password: string, words: readonly string[]): Promise<void>;
}

/** bcrypt's limit, which GoTrue's interface has. */
const maxPasswordBytes = 72;
// argon2id in the library's numbering.
const argon2id = 2;

const isTooLong = (password: string) =>
  password.length > maxPasswordBytes || Buffer.byteLength(password) > maxPasswordBytes;

/** Creates the password checks of a service. */
export async function createPasswords(rules: PasswordRules, cost: PasswordHashCost): Promise<Passwords> {
  const options = { ...cost, algorithm: argon2id };
  const hashWithoutAccount = await hash('no account has this password', options);

  const weakness = async (password: string, words: readonly string[]): Promise<WeakPassword | null> => {
    if (isTooLong(password)) return null;
    const reasons: WeakPassword['reasons'] = [];
    const sentences: string[] = [];
    if ([...password].length < rules.minimumLength) {
      reasons.push('length');
      sentences.push(`Password should be at least ${rules.minimumLength} characters.`);
    }
    const missing = rules.requiredCharacters.filter((set) => ![...set].some((one) => password.includes(one)));
    if (missing.length > 0) {
      reasons.push('characters');
      sentences.push(
        `Password should contain at least one character of each: ${rules.requiredCharacters.join(', ')}.`,
      );
    }
    if (rules.refusesCommon && (await isCommonPassword(password, [...rules.siteWords, ...words]))) {
      reasons.push('pwned');
      sentences.push('Password is known to be weak and easy to guess, please choose a different one.');
    }
    return reasons.length > 0 ? { message: sentences.join(' '), reasons } : null;
  };

  return {
    hash: (password) => hash(password, options),
    async matches(password, hashed) {
      // Accounts imported with a hash of another kind have no password here.
      const argon2Hash = hashed?.startsWith('$argon2') ? hashed : null;
      const tried = isTooLong(password) ? '' : password;
      const isMatch = await verify(argon2Hash ?? hashWithoutAccount, tried).catch(() => false);
      return isMatch && argon2Hash !== null && tried !== '';
    },
    weakness,
    async check(password, words) {
      if (isTooLong(password)) {
        throw new AuthError(
          400,
          'validation_failed',
          `Password cannot be longer than ${maxPasswordBytes} characters`,
        );
      }
      const found = await weakness(password, words);
      if (found) {
        throw new AuthError(422, 'weak_password', found.message, {
          extra: { weak_password: { reasons: found.reasons } },
        });
      }
    },
  };
}
