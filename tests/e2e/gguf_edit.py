"""GGUF files with other metadata and tensors than the one they come from, and the smallest that hold one tensor."""
import array
import struct

STRING, ARRAY = 8, 9
F32, F16 = 0, 1  # type ids of tensors
WIDTH = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of a scalar by value type
ALIGNMENT = 32


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def string_value(text):
    """A metadata value of type string: type and payload."""
    return struct.pack("<I", STRING) + string(text)


def u16_value(number):
    return struct.pack("<IH", 2, number)


def u32_value(number):
    return struct.pack("<II", 4, number)


def i32_value(number):
    return struct.pack("<Ii", 5, number)


def f32_value(number):
    return struct.pack("<If", 6, number)


def bool_value(flag):
    return struct.pack("<I?", 7, flag)


def f32_data(numbers):
    """A tensor's bytes."""
    return array.array("f", numbers).tobytes()


class _Cursor:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values[0] if len(values) == 1 else values

    def string(self):
        length = self.take("Q")
        self.at += length
        return self.data[self.at - length:self.at].decode()

    def skip_value(self):
        self._skip(self.take("I"))

    def _skip(self, kind):
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            element, count = self.take("IQ")
            if element in WIDTH:
                self.at += WIDTH[element] * count
            else:
                for _ in range(count):
                    self._skip(element)
        else:
            self.at += WIDTH[kind]


def u32_array_value(numbers):
    return struct.pack(f"<IIQ{len(numbers)}I", ARRAY, 4, len(numbers), *numbers)


def string_array_value(texts):
    return struct.pack("<IIQ", ARRAY, STRING, len(texts)) + b"".join(string(text) for text in texts)


def strings(source, key):
    """The texts of a metadata value that is an array of strings."""
    c = _Cursor(_read(source)[1][key])
    kind, element, count = c.take("IIQ")
    assert (kind, element) == (ARRAY, STRING), key
    return [c.string() for _ in range(count)]


def i32_array_value(numbers):
    return struct.pack(f"<IIQ{len(numbers)}i", ARRAY, 5, len(numbers), *numbers)


def _read(source):
    """(version, {key: value bytes}, [(name, dimensions, type, offset)], data)"""
    with open(source, "rb") as f:
        data = f.read()
    c = _Cursor(data)
    magic, version, count, pairs = c.take("4sIQQ")
    assert magic == b"GGUF", source
    metadata = {}
    for _ in range(pairs):
        key = c.string()
        begin = c.at
        c.skip_value()
        metadata[key] = data[begin:c.at]
    infos = []
    for _ in range(count):
        name = c.string()
        extents = [c.take("Q") for _ in range(c.take("I"))]
        infos.append((name, extents, *c.take("IQ")))
    return version, metadata, infos, data[-(-c.at // ALIGNMENT) * ALIGNMENT:]


def _write(target, version, metadata, count, head, body):
    out = struct.pack("<4sIQQ", b"GGUF", version, count, len(metadata))
    out += b"".join(string(key) + value for key, value in metadata.items()) + head
    out += bytes(-len(out) % ALIGNMENT)
    with open(target, "wb") as f:
        f.write(out + body)
    return target


def tensor(source, name):
    """(dimensions, fastest first, type id, bytes from its begin on to the next tensor's) of a tensor."""
    _, _, infos, body = _read(source)
    (extents, kind, offset), = [info[1:] for info in infos if info[0] == name]
    ends = [info[3] for info in infos if info[3] > offset]
    return extents, kind, body[offset:min(ends, default=len(body))]


def with_tensors(source, target, without, added=None):
    """Writes `source` as `target` without these tensors, and with `added`: {name: (dimensions, type id, data bytes)}."""
    version, metadata, infos, body = _read(source)
    kept = [info for info in infos if info[0] not in without]
    assert len(kept) == len(infos) - len(without), f"{source} lacks some of {without}"
    for name, (extents, kind, content) in (added or {}).items():
        body += bytes(-len(body) % ALIGNMENT)
        kept.append((name, extents, kind, len(body)))
        body += content
    head = b"".join(string(name) + struct.pack(f"<I{len(extents)}QIQ", len(extents), *extents, kind, offset) for name, extents, kind, offset in kept)
    return _write(target, version, metadata, len(kept), head, body)


def with_metadata(source, target, changes, tensors=None, spelled=None):
    """Writes `source` as `target` with `changes`: {key: value bytes, or None to leave the key out}, and with `tensors`:
    {name: (dimensions, fastest first, type id, data bytes)} in place of those of these names. `spelled(name, dimensions)`
    gives the name and dimensions that each tensor has in the target."""
    version, metadata, infos, body = _read(source)
    count = len(infos)
    replaced = dict(tensors or {})
    for i, (name, *_) in enumerate(infos):
        if name in replaced:
            extents, kind, content = replaced.pop(name)
            body += bytes(-len(body) % ALIGNMENT)
            infos[i] = (name, extents, kind, len(body))
            body += content
    assert not replaced, f"{source} has no {', '.join(replaced)}"
    if spelled is not None:
        infos = [(*spelled(name, extents), kind, offset) for name, extents, kind, offset in infos]
    head = b"".join(string(name) + struct.pack(f"<I{len(extents)}QIQ", len(extents), *extents, kind, offset)
                    for name, extents, kind, offset in infos)
    for key, value in changes.items():
        if value is None:
            metadata.pop(key, None)
        else:
            metadata[key] = value
    return _write(target, version, metadata, count, head, body)


def split(source, stem, shards):
    """Writes `source` as so many shards, STEM-00001-of-..., whose tensors are in turn; the first has the metadata. Returns
    their paths."""
    version, metadata, infos, body = _read(source)
    by_place = sorted(infos, key=lambda info: info[3])
    end = {a[0]: b[3] for a, b in zip(by_place, by_place[1:])}
    paths = []
    for no in range(shards):
        head, data = b"", b""
        mine = infos[no * len(infos) // shards:(no + 1) * len(infos) // shards]
        for name, extents, kind, offset in mine:
            head += string(name) + struct.pack(f"<I{len(extents)}QIQ", len(extents), *extents, kind, len(data))
            data += body[offset:end.get(name, len(body))]
            data += bytes(-len(data) % ALIGNMENT)
        keys = dict(metadata) if no == 0 else {}
        keys.update({"split.no": u16_value(no), "split.count": u16_value(shards), "split.tensors.count": i32_value(len(infos))})
        paths.append(_write(f"{stem}-{no + 1:05d}-of-{shards:05d}.gguf", version, keys, len(mine), head, data))
    return paths


def one_tensor(target, arch, type_id, elements, data_bytes):
    """A file with the architecture's name and one tensor of one dimension, filled with zeros."""
    out = struct.pack("<4sIQQ", b"GGUF", 3, 1, 1) + string("general.architecture") + string_value(arch)
    out += string("token_embd.weight") + struct.pack("<IQIQ", 1, elements, type_id, 0)
    out += bytes(-len(out) % ALIGNMENT) + bytes(data_bytes)
    with open(target, "wb") as f:
        f.write(out)
    return target
