// Vitest's environment with happy-dom for the DOM, and Node for the network.
import { builtinEnvironments, type Environment } from 'vitest/runtime';

const environment: Environment = {
  ...builtinEnvironments['happy-dom'],
  name: 'dom-environment',
  async setup(global, options) {
    const { fetch, Request, Response, Headers, AbortController, AbortSignal, URL, URLSearchParams } = global;
    const made = await builtinEnvironments['happy-dom'].setup(global, options);
    Object.assign(global, {
      fetch,
      Request,
      Response,
      Headers,
      AbortController,
      AbortSignal,
      URL,
      URLSearchParams,
    });
    return made;
  },
};
export default environment;
