// The simulator's key pair: the shop encrypts the initiator's password with the certificate, the private key decrypts it.
// It is not secret, because it protects only simulated money.
import { constants, privateDecrypt } from 'node:crypto';

/** The file that a merchant downloads from the portal. */
export const certificate = `-----BEGIN CERTIFICATE-----
MIIDLTCCAhWgAwIBAgIUHDYZcef9RtPGc0iFE/tAmsYPzWgwDQYJKoZIhvcNAQEL
BQAwJTEjMCEGA1UEAwwaUHJldGVuZCBNLVBFU0EgKHNpbXVsYXRvcikwIBcNMjYx
MTIxMDkxNTQyWhgPMjEyNjEwMjgwOTE1NDJaMCUxIzAhBgNVBAMMGlByZXRlbmQg
TS1QRVNBIChzaW11bGF0b3IpMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKC
AQEAy+DVJ6XMaJP71faRG+52uB/UMQtP9k1GN353aI/X1VWgKla5E8fSdLZ2snvW
NapbhMp5idx/iyqw6NmbXIWsJ5MBtNn8ox5J/WvkIxlgtz+r+oY06SuDaTGHc8wg
2Kymg2F6SrYXN/KzJMSofZwNUAjIV5qMnyzR4BnbGoCmGmZ8MvIbff5skCdgpkO6
YRtv2RXcsYMCeHV5O0Dqj0LzXgEUwbXmjuKmesNmkk2LW+pOKEBtcLzUNHpMn8w6
eIYdxDwI8wugk0pfg/+qMuG6aIn6yBqOZgcOPIHPwFYXTvtVxJ9Q9b1MEdhM/Bcy
Wjz+PdNrHtLZyxW+qVIbN5pPRwIDAQABo1MwUTAdBgNVHQ4EFgQUzw3N4vkPOO6j
LAYUiDMHsOdZm/gwHwYDVR0jBBgwFoAUzw3N4vkPOO6jLAYUiDMHsOdZm/gwDwYD
VR0TAQH/BAUwAwEB/zANBgkqhkiG9w0BAQsFAAOCAQEABix9SrGXml0gsijY8Wds
Fej1vQn5yT+0PSZW9hBvWUpKFqQSZr8mlwJzE4w0kediRdF47kRFkRdC4q2ljvp/
3ejHNk+PXQJnRbw1B5hVDwV75Di5iieX2ba9YTXAByW6uz7zX3jHS9PPnLOPLkau
aQBCWhJ+M6+ifLf7J8nZvNdBV3Yn4VLSYZnJmY00UY8rhbopKTULGCHD9gInjOO5
4z0wzydnzAorMqYvFwnQFyGmJMjbqksCT78hpn3gOybSf7xvllngqJvYt9wOOiYQ
T23pRjg0pPDG0rhqRaExdEhFfmiYAlQXt2p/IdTfiKRC8l8ZcY73qL1xxFZjvyzG
Eg==
-----END CERTIFICATE-----
`;

const privateKey = `-----BEGIN PRIVATE KEY-----
MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSkAgEAAoIBAQDL4NUnpcxok/vV
9pEb7na4H9QxC0/2TUY3fndoj9fVVaAqVrkTx9J0tnaye9Y1qluEynmJ3H+LKrDo
2ZtchawnkwG02fyjHkn9a+QjGWC3P6v6hjTpK4NpMYdzzCDYrKaDYXpKthc38rMk
xKh9nA1QCMhXmoyfLNHgGdsagKYaZnwy8ht9/myQJ2CmQ7phG2/ZFdyxgwJ4dXk7
QOqPQvNeARTBteaO4qZ6w2aSTYtb6k4oQG1wvNQ0ekyfzDp4hh3EPAjzC6CTSl+D
/6oy4bpoifrIGo5mBw48gc/AVhdO+1XEn1D1vUwR2Ez8FzJaPP4902se0tnLFb6p
Uhs3mk9HAgMBAAECggEABtPv9OTMbIuENB1kAmD2mzepq2jQaT8bmmaDCOlEVlyI
ltJntAi4UiNS5KsEDgZiC+zyAWgf4gvFzU6NsZ1ib22GHEXupucv8tZHAivqksiF
nHLGg9vqtJOtkHcQzzYyWhUM0O1kkqxEoUxwGMt99fpip0MW8Ypr5Er0DQurmcJZ
5yZqLXTnj8spQ2wTRatY/cKQmNi6Lznp5cLRabwj7+Kmcv6dE4UjjDdGVxmaia/e
tk8XiIVEay0CwmsC3VyaE/yZq5WTzLSp6mTx0gSPlYwWL4byekl0QOFCcmx96RBt
WdTJ5LqkcgsFXepe9SBDrf6/HDmOrWaEisVkxyGJVQKBgQDzypcPGrLny+El/lVG
GD7baWxbj+klkz3isRI5uZLnVcSmKhA4pyszJxcNNzdjgB9W+JrhkgNkKLzEnceh
TQOew53fAmLHZjMVH9vhQHzQMVb+o/mn0thO+JTw1Zgzbz5oMelaIVgrcy5u1Vu+
0lqgHRQx/KJn4iP89AXJ0QEWHQKBgQDWFo5AwPIEP3Tbqhaw4198nDESyHO8+yIw
p+tU6wuqSXIaxXp57XIVBduZo0C7VRFZQedjIYXLNGqNG/8fTGzFCG5h55JjxFDb
RIcillKcQBApMFcs60B9ox6UHIigI9ChVvnhHRNTHyTLei2YkEaU/rx9Rc1uW3+i
Lq+58avtswKBgAYmJPs/jCWmkc44hQQYlnVISnBgx9unxBbUqoYENT1af3RFeVVE
eiV3JfCyZNZApAm4iYeI/EbpdCFtbVyXKbE2c+PtFnq7DCzLOeuLidpidDRGBIUE
H2qWgIM2j/k0JBnSsHUShDvMUu5+uSqt+ZUyRpEgMyR1ory9luvJNsLNAoGBAKA6
J2MtRLSLLZGNngfrVDa1y0CMh5qjtfYGZumaNJPQ/jYtIDoKzPwQ80bsWPEbfK15
1oxptXHdG/XaQzmQgEOCyOI7Z2OFtSI2CpGHQfKxO6coB8aVlyGwqJ0fMd3wkB+A
MeoaUbE/ONGU8nUhXcH7WOTFDjgPANpH6LrYtd1jAoGBALBcjGMxdKPwBR08UlTh
yB6Dij1+33TwadDwFawxOYqCyhTDJ/cQTbw6V7V4bcRye58a5yTqqOXbAPKj7AOF
v+XVVFg3yEHpZjumM2/Dz/msZNPHfEO6wXWZHZfQE5ncdfRZoeFIQlGNEfK/MyA/
9/FuX78jiEPpKBaBqN3cRIBs
-----END PRIVATE KEY-----
`;

/**
 * Decrypts a SecurityCredential: base64 of RSA with PKCS #1 v1.5 padding.
 * @returns null when it was not encrypted with the certificate
 */
export function openCredential(credential: string): string | null {
  try {
    // Node does not remove this padding itself, because its timing could help an attacker.
    const padded = privateDecrypt(
      { key: privateKey, padding: constants.RSA_NO_PADDING },
      Buffer.from(credential, 'base64'),
    );
    const end = padded.indexOf(0, 2);
    return padded[0] === 0 && padded[1] === 2 && end >= 10 ? padded.subarray(end + 1).toString('utf8') : null;
  } catch {
    return null;
  }
}
