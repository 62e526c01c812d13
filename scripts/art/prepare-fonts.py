"""Subset the two brand fonts for the web and write the letterforms that the drawn labels use.

Needs Python with fonttools and brotli; run from the repository root: python3 scripts/art/prepare-fonts.py
The results are committed, so a build never needs Python.
"""

import copy
import json
import pathlib
import shutil

from fontTools import subset
from fontTools.misc.transform import Transform
from fontTools.pens.svgPathPen import SVGPathPen
from fontTools.pens.transformPen import TransformPen
from fontTools.ttLib import TTFont
from fontTools.varLib import instancer

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "node_modules/@fontsource-variable"
FONTS = ROOT / "web/public/fonts"
BRICOLAGE = SOURCE / "bricolage-grotesque/files/bricolage-grotesque-latin-standard-normal.woff2"
FIGTREE = SOURCE / "figtree/files/figtree-latin-wght-normal.woff2"
ARIAL = pathlib.Path("/usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf")
ARIAL_BOLD = ARIAL.with_name("LiberationSans-Bold.ttf")

PUNCTUATION = {ord(c) for c in "\u00a0–—‘’‚“”„•·…→←↑↓×✓−′″©®°½\u2009"}
# All letters of Western Europe but the Icelandic ones, and of its signs those that are written here: a face of more than 14 kB
# takes a phone a third flight over a slow line.
LETTERS = {c for c in range(0xC0, 0x100) if chr(c) not in "×÷ÐÞðþ"}
# Kikuyu and Kamba names are written with these (Wanjikũ, Mũthoni). Figtree has none of them, so both fonts compose them.
TILDE_LETTERS = {"ĩ": "î", "ũ": "û", "Ĩ": "Î", "Ũ": "Û"}
KENYAN = {ord(c) for c in TILDE_LETTERS}
BODY_GLYPHS = set(range(0x20, 0x7F)) | LETTERS | PUNCTUATION | KENYAN
# Headlines are English or Swahili: the accents of loan words are enough.
DISPLAY_GLYPHS = set(range(0x20, 0x7F)) | PUNCTUATION | KENYAN | {ord(c) for c in "éèêàáâçñöüïô"}
# Running text, enough to compare the average widths of two fonts.
SAMPLE = (
    "Freshly pressed, ice-cold and on the road in minutes: choose a drink, pay by phone and follow your order "
    "to the door. Mango, passion, pineapple, tamarind, hibiscus, ginger, watermelon, coconut. KSh 1,200.00"
)


def pinned(path, **axes):
    font = TTFont(path)
    return instancer.instantiateVariableFont(font, axes)


def compose_tilde_letters(font):
    """Add ĩ ũ Ĩ Ũ: each is its sibling with a circumflex, with the tilde where õ has it in relation to ô (Õ and Ô)."""
    cmap, glyphs = font.getBestCmap(), font["glyf"]
    variations = font["gvar"].variations if "gvar" in font else {}
    for letter, sibling in TILDE_LETTERS.items():
        like = cmap[ord(sibling)]
        tilde, circumflex = (cmap[ord(c)] for c in ("ÕÔ" if letter.isupper() else "õô"))
        name = f"uni{ord(letter):04X}"
        glyph = copy.deepcopy(glyphs[like])
        mark, other, model = glyph.components[1], glyphs[circumflex].components[1], glyphs[tilde].components[1]
        mark.glyphName = model.glyphName
        mark.x, mark.y = mark.x + model.x - other.x, mark.y + model.y - other.y
        font.setGlyphOrder([*font.getGlyphOrder(), name])
        glyphs.glyphs[name] = glyph
        font["hmtx"].metrics[name] = font["hmtx"].metrics[like]
        if like in variations:
            parts = [copy.deepcopy(variations[each]) for each in (like, tilde, circumflex)]
            for own, added, taken in zip(*parts, strict=True):
                assert own.axes == added.axes == taken.axes
                own.coordinates = [
                    own.coordinates[0],
                    tuple(a + b - c for a, b, c in zip(own.coordinates[1], added.coordinates[1], taken.coordinates[1])),
                    *own.coordinates[2:],
                ]
            variations[name] = parts[0]
        if "HVAR" in font and font["HVAR"].table.AdvWidthMap:
            mapping = font["HVAR"].table.AdvWidthMap.mapping
            mapping[name] = mapping[like]
        for table in font["cmap"].tables:
            if table.isUnicode():
                table.cmap[ord(letter)] = name
    return font


def web_font(font, name, wanted):
    options = subset.Options()
    options.flavor = "woff2"
    options.layout_features = ["kern", "liga", "tnum"]
    options.hinting = False
    options.name_IDs = [1, 2, 13, 14]
    options.drop_tables += ["DSIG", "meta"]
    sub = subset.Subsetter(options)
    sub.populate(unicodes=wanted)
    sub.subset(font)
    target = FONTS / name
    subset.save_font(font, target, options)
    print(name, target.stat().st_size, "bytes, missing:", "".join(chr(c) for c in sorted(wanted - set(font.getBestCmap()))))


def average_width(font):
    cmap, metrics = font.getBestCmap(), font["hmtx"]
    return sum(metrics[cmap[ord(c)]][0] for c in SAMPLE) / len(SAMPLE) / font["head"].unitsPerEm


def fallback(name, font, base):
    """Print the @font-face descriptors that make `base` take the room of `font`."""
    ratio = average_width(font) / average_width(TTFont(base))
    em, hhea = font["head"].unitsPerEm, font["hhea"]
    print(
        f"{name}: size-adjust {ratio:.2%}; ascent-override {hhea.ascent / em / ratio:.2%}; "
        f"descent-override {-hhea.descent / em / ratio:.2%}; line-gap-override {hhea.lineGap / em / ratio:.2%}"
    )


def letterforms(font, characters):
    """Outlines of `characters`, one em = 1000, y down, with advances and kerning pairs."""
    cmap, glyphs, em = font.getBestCmap(), font.getGlyphSet(), font["head"].unitsPerEm
    scale, forms = 1000 / em, {}
    for character in characters:
        pen = SVGPathPen(glyphs, ntos=lambda n: f"{n:.0f}")
        glyphs[cmap[ord(character)]].draw(TransformPen(pen, Transform(scale, 0, 0, -scale, 0, 0)))
        forms[character] = [round(glyphs[cmap[ord(character)]].width * scale), pen.getCommands()]
    return forms


if __name__ == "__main__":
    FONTS.mkdir(parents=True, exist_ok=True)
    # The large optical size has the tight, ink-trapped drawing the brand is about; text sizes go to Figtree.
    # One weight: the range between bold and extra bold costs every first visit ten kilobytes and hardly shows.
    display = pinned(BRICOLAGE, opsz=48, wdth=96, wght=760)
    fallback("display", pinned(BRICOLAGE, opsz=48, wdth=96, wght=760), ARIAL_BOLD)
    web_font(compose_tilde_letters(display), "bricolage-grotesque.woff2", DISPLAY_GLYPHS)
    body = pinned(FIGTREE, wght=(400, 700))
    fallback("body 400", pinned(FIGTREE, wght=400), ARIAL)
    web_font(compose_tilde_letters(body), "figtree.woff2", BODY_GLYPHS)
    shutil.copy(SOURCE / "bricolage-grotesque/LICENSE", FONTS / "bricolage-grotesque-OFL.txt")
    shutil.copy(SOURCE / "figtree/LICENSE", FONTS / "figtree-OFL.txt")

    capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,&%'-·"
    words = capitals + "abcdefghijklmnopqrstuvwxyz"
    faces = {
        "display": letterforms(pinned(BRICOLAGE, opsz=60, wdth=92, wght=800), words),
        "narrow": letterforms(pinned(BRICOLAGE, opsz=60, wdth=75, wght=800), capitals),
        "text": letterforms(pinned(FIGTREE, wght=700), words),
    }
    target = ROOT / "server/share-images/letterforms.json"
    target.write_text(json.dumps(faces, ensure_ascii=False, separators=(",", ":")).replace('],"', '],\n"') + "\n")
    print("letterforms.json", target.stat().st_size, "bytes")
