// The part of Deno's API that functions use, so that this project's compiler can check their entry files.
declare const Deno: {
  readonly env: { get(name: string): string | undefined };
  serve(handler: (request: Request) => Response | Promise<Response>): unknown;
};
