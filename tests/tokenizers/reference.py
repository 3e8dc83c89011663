#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the reference tokenizers give (Hugging Face's `tokenizers` 0.23, from PyPI):

    reference.py golden            writes small/: vocabularies of our own making, texts, and their tokens
    reference.py checksums FOLDER  prints checksums of the tokens of real data sets, for test_tokenizer_files.c

FOLDER has gpt2-bpe/{encoder.json,vocab.bpe}, bert-vocab/vocab.txt and the texts."""
import gzip
import json
import os
import random
import struct
import sys
import zlib

from tokenizers import BertWordPieceTokenizer, ByteLevelBPETokenizer, decoders

SMALL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "small")

# Old enough to be the same in each version of Unicode that a tokenizer knows.
BLOCKS = [(0x20, 0x7E), (0x20, 0x7E), (0x20, 0x7E), (0xA0, 0x17F), (0x300, 0x345), (0x391, 0x3A1), (0x3A3, 0x3C9),
          (0x401, 0x44F), (0x5D0, 0x5EA), (0x591, 0x5BD), (0x627, 0x64A), (0x64B, 0x652), (0x660, 0x669),
          (0x905, 0x939), (0x93E, 0x94D), (0xE01, 0xE3A), (0x1E00, 0x1EF9), (0x2010, 0x2027), (0x2030, 0x205E),
          (0x2160, 0x217F), (0x2190, 0x21FF), (0x2460, 0x24FF), (0x3001, 0x303F), (0x3041, 0x3096), (0x30A1, 0x30FA),
          (0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0xF900, 0xFA2D), (0xFF01, 0xFF5E), (0x1D400, 0x1D454),
          (0x1F600, 0x1F640), (0x20000, 0x2A6D6)]
SPACES = " \n\t\r  \u000b\u000c\u001c\u0085\u00a0\u1680\u2003\u2028\u202f\u3000"
ODD = "\u0001\u007f\u200b\u200d\ufeff\ufffd\ue000\u0130\u03a3\u00df\ufb01\u1e9e\u212b\u302e\u0344"
PROSE = [
    "A model is an ordinary C function: it's traced once, and then it'll be compiled. They've said we're done;.",
    "The optimizer's update reads 3 words and writes 2, so 1,048,576 parameters move 20 MiB (12.5% less).",
    "def f(x):\n    return x*x + 2*x - 1  # the derivative is 2x+2\n\n\nprint(f(10))\n",
    "Unicode: na\u00efve caf\u00e9, Stra\u00dfe, \u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2, "
    "\u041c\u043e\u0441\u043a\u0432\u0430, "
    "\u65e5\u672c\u8a9e\u306e\u6587\u3068\u4e2d\u6587, \ud55c\uad6d\uc5b4, \u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22.",
    "don't DON'T can't've 'tis 's 'S ''ll we'll'll I'm'm rock'n'roll  'd  've",
    "   three spaces before,\ttabs\t\tand   several   between;  two at the end  ",
    "[cls ] ##ing <|endoftext|> http://example.org/a_b?c=d&e=f#g user@example.org $5.00 50% -- ... !? (x) [y] {z}",
    "\u0041\u030a\u0301 \u0301\u0316a\u0316\u0301 q\u0323\u0307 q\u0307\u0323 \u1e9b\u0323 \u0130stanbul \u0390",
    "antidisestablishmentarianism " + "x" * 99 + " " + "y" * 100 + " " + "z" * 101 + " " + "\u00e9" * 100,
    "",
    " ",
    "\n\n \n",
    "'",
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 \u00a9 \u2122 \u20ac5 \u00bd \u2168",
]


def random_line(r):
    out = []
    for _ in range(r.randint(1, 40)):
        k = r.random()
        if k < 0.2:
            out.append(r.choice(SPACES))
        elif k < 0.45:
            out.append(r.choice(["the", "ing", "a", "er", "'s", "'ll", "12", "Re", "tion", "ST"]))
        elif k < 0.5:
            out.append(r.choice(ODD))
        else:
            out.append(chr(r.randint(*r.choice(BLOCKS))))
    return "".join(out)


def golden():
    os.makedirs(SMALL, exist_ok=True)
    r = random.Random(20)
    texts = PROSE + [random_line(r) for _ in range(300)]
    corpus = PROSE * 20 + texts
    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator(corpus, vocab_size=600, min_frequency=2, special_tokens=["<|endoftext|>"],
                            show_progress=False)
    bpe.save_model(SMALL)
    os.replace(os.path.join(SMALL, "vocab.json"), os.path.join(SMALL, "gpt2-vocab.json"))
    os.replace(os.path.join(SMALL, "merges.txt"), os.path.join(SMALL, "gpt2-merges.txt"))
    bert = BertWordPieceTokenizer(lowercase=True)
    bert.train_from_iterator(corpus, vocab_size=600, min_frequency=2, limit_alphabet=300, show_progress=False)
    bert.save_model(SMALL)
    os.replace(os.path.join(SMALL, "vocab.txt"), os.path.join(SMALL, "bert-vocab.txt"))
    gpt2, bert = open_both(os.path.join(SMALL, "gpt2-vocab.json"), os.path.join(SMALL, "gpt2-merges.txt"),
                           os.path.join(SMALL, "bert-vocab.txt"))
    plain = decoders.WordPiece(prefix="##", cleanup=False)
    with open(os.path.join(SMALL, "expected.jsonl"), "w") as f:
        for text in texts:
            pieces = bert.encode(text, add_special_tokens=False)
            row = {"text": text, "gpt2": gpt2.encode(text).ids, "wordpiece": pieces.ids,
                   "words": plain.decode(pieces.tokens)}
            f.write(json.dumps(row) + "\n")


def open_both(vocab, merges, pieces):
    return ByteLevelBPETokenizer(vocab, merges), BertWordPieceTokenizer(pieces, lowercase=True)


def checksums(folder):
    gpt2, bert = open_both(*(os.path.join(folder, name) for name in
                             ("gpt2-bpe/encoder.json", "gpt2-bpe/vocab.bpe", "bert-vocab/vocab.txt")))
    for name in ("tinyshakespeare/input.txt", "imdb/train.tsv.gz", "sst2/train.tsv.gz"):
        path = os.path.join(folder, name)
        data = (gzip.open if name.endswith(".gz") else open)(path, "rb").read()
        lines = [line.rstrip(b"\r").split(b"\t")[-1].decode() for line in data.split(b"\n")]
        for kind, encode in (("gpt2", gpt2.encode_batch), ("wordpiece", bert.encode_batch)):
            count = crc = 0
            for i in range(0, len(lines), 5000):
                for e in encode(lines[i:i + 5000], add_special_tokens=False):
                    count += len(e.ids)
                    crc = zlib.crc32(struct.pack("<%di" % len(e.ids), *e.ids), crc)
            print('    {"%s", "%s", %d, %d, 0x%08x},' % (name, kind, len(lines), count, crc), flush=True)


if sys.argv[1:] == ["golden"]:
    golden()
elif len(sys.argv) == 3 and sys.argv[1] == "checksums":
    checksums(sys.argv[2])
else:
    sys.exit(__doc__)
