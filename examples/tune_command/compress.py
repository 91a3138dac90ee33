r"""Compress a text and print how many bytes are left; the options of zlib are the levers.

levers run zlib --space levers.toml --goal minimize --budget 48 \
    -- python compress.py {level} {memory} {strategy} {window}
"""

import random
import sys
import zlib

TEXT = "the of and heat speed run trial lever outcome setting noise round worker study log 1 2 3 4 5 10 20 0.5"
WORDS = TEXT.split()
STRATEGIES = {"default": zlib.Z_DEFAULT_STRATEGY, "filtered": zlib.Z_FILTERED}


def main() -> None:
    level, memory, strategy, window = sys.argv[1:]
    # a new text every time, longer or shorter, as real input is: that is the noise
    text = " ".join(random.choices(WORDS, weights=range(len(WORDS), 0, -1), k=random.randint(3_600, 4_400))).encode()
    packer = zlib.compressobj(int(level), zlib.DEFLATED, int(window), int(memory), STRATEGIES[strategy])
    print("bytes:", len(packer.compress(text) + packer.flush()))


if __name__ == "__main__":
    main()
