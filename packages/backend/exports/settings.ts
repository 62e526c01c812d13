// Settings: wrong ones, API keys, and those of sign-in.
export {
  type ApiKeys,
  type GivenKeys,
  isSameSecret,
  loadApiKeys,
  rotateSigningKey,
  UnusableKeysFile,
} from '../api-keys.ts';
export { type GivenAuthSettings, overrideSettings } from '../auth/settings.ts';
export { WrongSetting } from '../wrong-setting.ts';
