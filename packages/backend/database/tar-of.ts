// Builds a small tar archive, for tests.

/** @param files content by name; null for a folder */
export function tarOf(files: Record<string, string | null>): Buffer {
  const blocks = Object.entries(files).flatMap(([name, content]) => {
    const header = Buffer.alloc(512);
    header.write(name, 0);
    header.write(`${(content ?? '').length.toString(8).padStart(11, '0')}\0`, 124);
    header.write(content === null ? '5' : '0', 156);
    header.write('ustar\0', 257);
    const length = Math.ceil((content ?? '').length / 512) * 512;
    return [header, Buffer.concat([Buffer.from(content ?? '')], length)];
  });
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}
