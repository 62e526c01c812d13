// Passwords: their rules, their hashes (argon2id), and a check that takes as long for nobody as for somebody.
import { hash, verify } from '@node-rs/argon2';
import { AuthFault } from './fault.ts';
import type { PasswordHashCost, PasswordRules } from './settings.ts';

export interface WeakPassword {
  message: string;
  reasons: ('length' | 'characters')[];
}

export interface Passwords {
  /** @returns the hash in PHC form */
  hash(password: string): Promise<string>;
  /** Whether a password fits; without a hash it takes as long and says no. */
  fits(password: string, hashed: string | null): Promise<boolean>;
  /** What is wrong with a password; null when nothing is. */
  weakness(password: string): WeakPassword | null;
  /** @throws AuthFault weak_password (422), validation_failed (400) when longer than 72 bytes */
  check(password: string): void;
}

/** bcrypt's limit, which the interface keeps to. */
const longestPassword = 72;
// argon2id in the library's numbering.
const argon2id = 2;

/** Makes the password check of a service. */
export async function createPasswords(rules: PasswordRules, cost: PasswordHashCost): Promise<Passwords> {
  const options = { ...cost, algorithm: argon2id };
  const ofNobody = await hash('nobody has this password', options);

  const weakness = (password: string): WeakPassword | null => {
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
    return reasons.length > 0 ? { message: sentences.join(' '), reasons } : null;
  };

  return {
    hash: (password) => hash(password, options),
    async fits(password, hashed) {
      // A hash of another kind, of people who were brought along from elsewhere, fits nothing.
      const known = hashed?.startsWith('$argon2') ? hashed : null;
      const fits = await verify(known ?? ofNobody, password).catch(() => false);
      return fits && known !== null;
    },
    weakness,
    check(password) {
      if (Buffer.byteLength(password) > longestPassword) {
        throw new AuthFault(
          400,
          'validation_failed',
          `Password cannot be longer than ${longestPassword} characters`,
        );
      }
      const found = weakness(password);
      if (found) {
        throw new AuthFault(422, 'weak_password', found.message, {
          extra: { weak_password: { reasons: found.reasons } },
        });
      }
    },
  };
}
