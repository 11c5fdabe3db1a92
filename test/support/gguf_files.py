"""GGUF files for tests: written from arrays, and read back into f64 with NumPy, whatever their blocks.

Nothing here comes from the library under test: blocks are taken apart as the format describes them.
"""
import struct

import numpy as np

# name: number, values a block, bytes a block
FORMATS = dict(f32=(0, 1, 4), f16=(1, 1, 2), bf16=(30, 1, 2), q4_0=(2, 32, 18), q4_1=(3, 32, 20), q5_0=(6, 32, 22),
               q5_1=(7, 32, 24), q8_0=(8, 32, 34), q4_k=(12, 256, 144), q5_k=(13, 256, 176), q6_k=(14, 256, 210))
NAMES = {number: name for name, (number, _, _) in FORMATS.items()}
# where f16 numbers lie in a block: the scale, then the least value
HALVES = dict(q4_0=(0,), q4_1=(0, 2), q5_0=(0,), q5_1=(0, 2), q8_0=(0,), q4_k=(0, 2), q5_k=(0, 2), q6_k=(208,))


# ---- blocks -> numbers ----

def half(blocks, at):
    return blocks[:, at:at + 2].copy().view(np.float16).astype(np.float64)


def nibbles(q):
    """Low halves of the bytes, then the high ones."""
    return np.concatenate([q & 15, q >> 4], axis=-1).astype(np.float64)


def fifth_bits(h):
    return np.unpackbits(h, axis=-1, bitorder="little").astype(np.float64)


def small_scales(s):
    """The 6-bit scales and least values of eight groups, from 12 bytes."""
    scale, least = np.zeros((len(s), 8)), np.zeros((len(s), 8))
    for j in range(8):
        if j < 4:
            scale[:, j], least[:, j] = s[:, j] & 63, s[:, j + 4] & 63
        else:
            scale[:, j] = (s[:, j + 4] & 15) | (s[:, j - 4] >> 6 << 4)
            least[:, j] = (s[:, j + 4] >> 4) | (s[:, j] >> 6 << 4)
    return scale, least


def five_or_four_k(blocks, bits):
    scale, least = small_scales(blocks[:, 4:16])
    q = blocks[:, 16 if bits == 4 else 48:].reshape(-1, 4, 32)
    out = np.zeros((len(blocks), 8, 32))
    for group in range(8):
        values = (q[:, group // 2] >> 4 * (group % 2)) & 15
        if bits == 5:
            values = values | ((blocks[:, 16:48] >> group) & 1) << 4
        out[:, group] = half(blocks, 0) * scale[:, group:group + 1] * values - half(blocks, 2) * least[:, group:group + 1]
    return out


def six_k(blocks):
    low, high, scale = blocks[:, :128].reshape(-1, 2, 64), blocks[:, 128:192].reshape(-1, 2, 32), blocks[:, 192:208].view(np.int8)
    out = np.zeros((len(blocks), 2, 4, 32))
    for part in range(2):
        for quarter in range(4):
            q = (low[:, part, 32 * (quarter % 2):32 * (quarter % 2) + 32] >> 4 * (quarter // 2)) & 15
            q = q | ((high[:, part] >> 2 * quarter) & 3) << 4
            groups = np.repeat(scale[:, 8 * part + 2 * quarter:8 * part + 2 * quarter + 2], 16, axis=1).astype(np.float64)
            out[:, part, quarter] = half(blocks, 208) * groups * (q.astype(np.float64) - 32)
    return out


def numbers(name, raw, shape):
    """The bytes of a tensor as f64."""
    if name in ("f32", "f16"):
        return raw.view(np.float32 if name == "f32" else np.float16).astype(np.float64).reshape(shape)
    if name == "bf16":
        return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64).reshape(shape)
    blocks = raw.reshape(-1, FORMATS[name][2])
    if name == "q4_0":
        out = half(blocks, 0) * (nibbles(blocks[:, 2:]) - 8)
    elif name == "q4_1":
        out = half(blocks, 0) * nibbles(blocks[:, 4:]) + half(blocks, 2)
    elif name == "q5_0":
        out = half(blocks, 0) * (nibbles(blocks[:, 6:]) + 16 * fifth_bits(blocks[:, 2:6]) - 16)
    elif name == "q5_1":
        out = half(blocks, 0) * (nibbles(blocks[:, 8:]) + 16 * fifth_bits(blocks[:, 4:8])) + half(blocks, 2)
    elif name == "q8_0":
        out = half(blocks, 0) * blocks[:, 2:].view(np.int8).astype(np.float64)
    else:
        out = six_k(blocks) if name == "q6_k" else five_or_four_k(blocks, int(name[1]))
    return out.reshape(shape)


def random_blocks(name, shape, size, random):
    """Bytes of a tensor whose numbers are about `size` large."""
    count = int(np.prod(shape))
    _, values, bytes_each = FORMATS[name]
    if name in ("f32", "f16"):
        return (random.standard_normal(count) * size).astype(np.float32 if name == "f32" else np.float16).view(np.uint8)
    if name == "bf16":
        return ((random.standard_normal(count) * size).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    blocks = random.integers(0, 256, (count // values, bytes_each), dtype=np.uint8)
    largest = dict(q4_0=8, q4_1=8, q5_0=16, q5_1=16, q8_0=128, q4_k=15 * 63 / 2, q5_k=31 * 63 / 2, q6_k=32 * 128)[name]
    for at, sign in zip(HALVES[name], (1, -8 if name == "q4_1" else -16 if name == "q5_1" else 7.5 if name == "q4_k" else 15.5)):
        scale = size / largest * sign * (0.5 + random.random(len(blocks)))
        blocks[:, at:at + 2] = scale.astype(np.float16)[:, None].view(np.uint8)
    return blocks.reshape(-1)


# ---- files ----

def pair(key, value):
    def string(text):
        raw = text.encode() if isinstance(text, str) else text
        return struct.pack("<Q", len(raw)) + raw
    kinds = {bool: (7, "<?"), int: (4, "<I"), float: (6, "<f")}
    if isinstance(value, list):
        first = value[0]
        body = b"".join(string(item) if isinstance(item, (str, bytes)) else struct.pack("<i" if isinstance(item, int) else "<f", item)
                        for item in value)
        number = 8 if isinstance(first, (str, bytes)) else 5 if isinstance(first, int) else 6
        return string(key) + struct.pack("<IIQ", 9, number, len(value)) + body
    if isinstance(value, (str, bytes)):
        return string(key) + struct.pack("<I", 8) + string(value)
    number, form = kinds[type(value)]
    return string(key) + struct.pack("<I", number) + struct.pack(form, value)


def write(path, pairs, tensors, alignment=32):
    """tensors: name -> (format, shape, bytes)."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + b"".join(pair(*item) for item in pairs.items())
    data, place = b"", 0
    for name, (form, shape, raw) in tensors.items():
        head += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", len(shape))
        head += b"".join(struct.pack("<Q", extent) for extent in reversed(shape)) + struct.pack("<IQ", FORMATS[form][0], place)
        data += raw.tobytes() + bytes(-len(raw) % alignment)
        place = len(data)
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % alignment) + data)


def read(path):
    """(pairs, tensors: name -> (format, shape, bytes)) of a file that is trusted."""
    data, at = np.memmap(path, dtype=np.uint8, mode="r"), 8

    def take(form):
        nonlocal at
        values = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return values[0]

    def string():
        nonlocal at
        length = take("Q")
        at += length
        return data[at - length:at].tobytes()

    def value(kind):
        if kind == 8:
            return string()
        if kind == 9:
            element, count = take("I"), take("Q")
            return [value(element) for _ in range(count)]
        return take("BbHhIif?__QqD"[kind].replace("D", "d"))

    tensor_count, pair_count = take("Q"), take("Q")
    pairs, table = {}, []
    for _ in range(pair_count):
        key = string().decode()
        pairs[key] = value(take("I"))
    for _ in range(tensor_count):
        name, rank = string().decode(), take("I")
        shape = tuple(reversed([take("Q") for _ in range(rank)]))
        table.append((name, shape, NAMES[take("I")], take("Q")))
    alignment = pairs.get("general.alignment", 32)
    start = -(-at // alignment) * alignment
    tensors = {}
    for name, shape, form, offset in table:
        _, values, bytes_each = FORMATS[form]
        size = int(np.prod(shape)) // values * bytes_each
        tensors[name] = (form, shape, np.asarray(data[start + offset:start + offset + size]))
    return pairs, tensors
