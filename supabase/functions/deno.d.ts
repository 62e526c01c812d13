// The part of Deno's API that functions use, so that the compiler of this project checks their entries too.
declare const Deno: {
  readonly env: { get(name: string): string | undefined };
  serve(handler: (request: Request) => Response | Promise<Response>): unknown;
};
