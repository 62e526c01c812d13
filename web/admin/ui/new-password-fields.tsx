// A new password, typed twice.
import { TextField } from '../../ui/field.tsx';

const shortestPassword = 8;

interface NewPasswordFieldsProps {
  /** The account's e-mail, for password managers. */
  email: string;
  problem: string | null;
}

export function NewPasswordFields({ email, problem }: NewPasswordFieldsProps) {
  return (
    <>
      <input type="text" name="username" autoComplete="username" value={email} readOnly hidden />
      <TextField
        label="New password"
        name="password"
        type="password"
        required
        autoComplete="new-password"
        minLength={shortestPassword}
        maxLength={72}
        hint={`At least ${shortestPassword} characters; a few words are easier to remember than a few symbols.`}
      />
      <TextField
        label="New password, again"
        name="again"
        type="password"
        required
        autoComplete="new-password"
        maxLength={72}
        problem={problem ?? undefined}
      />
    </>
  );
}

export function readNewPassword(form: FormData): { password: string; problem: string | null } {
  const password = String(form.get('password'));
  return { password, problem: password === form.get('again') ? null : 'The two passwords are not the same' };
}
