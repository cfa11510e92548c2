"""Random changes of files: of bytes, of JSON documents, and of what netCDF files hold."""

import json
import shutil

import numpy as np


def mutated_bytes(content, rng):
    """The bytes with a flipped bit, a changed, missing, repeated or zeroed part, or without their end."""
    found, at, length = bytearray(content), int(rng.integers(len(content))), int(rng.integers(1, 9))
    match int(rng.integers(6)):
        case 0:
            found[at] ^= 1 << int(rng.integers(8))
        case 1:
            found[at] = int(rng.integers(256))
        case 2:
            del found[at : at + length]
        case 3:
            found[at:at] = found[at : at + length]
        case 4:
            found[at : at + length] = bytes(len(found[at : at + length]))
        case _:
            del found[at:]
    return bytes(found)


def mutated_digit(text, rng):
    """The text with another digit in place of one."""
    places = [k for k, letter in enumerate(text) if letter.isdigit()]
    at = int(rng.choice(places))
    return text[:at] + str((int(text[at]) + int(rng.integers(1, 10))) % 10) + text[at + 1 :]


def places(item):
    """All (container, key) of a document."""
    keys = list(item) if isinstance(item, dict) else range(len(item)) if isinstance(item, list) else ()
    for key in keys:
        yield item, key
        yield from places(item[key])


def mutate_document(document, rng):
    """Change one value, name or place of a document in place."""
    every = list(places(document))
    holder, key = every[int(rng.integers(len(every)))]
    match int(rng.integers(6)):
        case 0 | 1:
            holder[key] = another(holder[key], rng)
        case 2:
            del holder[key]
        case 3:
            if isinstance(holder, dict):
                holder[another(key, rng)] = holder.pop(key)
            else:
                holder.insert(key, holder[key])
        case 4:
            other, place = every[int(rng.integers(len(every)))]
            holder[key], other[place] = json.loads(json.dumps([other[place], holder[key]]))
        case _:
            if isinstance(holder, dict):
                holder[f"{key} "] = holder[key]
            else:
                holder.reverse()


def another(item, rng):
    """A value like this one."""
    if isinstance(item, bool) or item is None:
        return bool(rng.integers(2))
    if isinstance(item, (int, float)):
        return [item + 1, -item, 2 * item, item / 3, float(np.nextafter(float(item), np.inf)), str(item)][
            int(rng.integers(6))
        ]
    if isinstance(item, str):
        at = int(rng.integers(len(item) + 1))
        return item[:at] + "abcdefgh 019"[int(rng.integers(12))] + item[at + int(rng.integers(2)) :]
    return [] if rng.integers(2) else {}


def mutate_netcdf(path, rng):
    """Change an attribute, a number, a name, a label or a group of a netCDF file in place."""
    import h5py

    with h5py.File(path, "r+") as file:
        group = file["posterior" if rng.integers(2) else list(file)[int(rng.integers(len(file)))]]
        arrays = [name for name in group if isinstance(group[name], h5py.Dataset)]
        texts = [name for name, text in group.attrs.items() if isinstance(text, str) and name.startswith("privsample")]
        name = arrays[int(rng.integers(len(arrays)))]
        match int(rng.integers(6)):
            case 0 | 1 if texts:
                chosen = texts[int(rng.integers(len(texts)))]
                group.attrs[chosen] = mutated_text(group.attrs[chosen], rng)
            case 2:
                group.move(name, another(name, rng) or "x")
            case 3:
                del group[name]
            case 4 if len(arrays) > 1:
                other = arrays[int(rng.integers(len(arrays)))]
                group.move(name, "between")
                if other != name:
                    group.move(other, name)
                group.move("between", other)
            case _:
                change_number(group[name], rng)


def change_number(array, rng):
    """Change one element of an array of numbers or texts in place."""
    values = array[...]
    at = tuple(int(rng.integers(size)) for size in values.shape)
    values[at] = "another" if values.dtype.hasobject else values[at] * 2 + 1
    array[...] = values


def mutated_text(text, rng):
    """A text attribute after a change of its JSON document, or of one of its letters."""
    try:
        document = json.loads(text)
    except ValueError:
        return another(text, rng)
    mutate_document(document, rng)
    return json.dumps(document)


def mutated_copy(path, target, rng):
    """Write a changed copy of a file."""
    if path.suffix == ".nc" and rng.integers(2):
        shutil.copy(path, target)
        try:
            mutate_netcdf(target, rng)
        except (OSError, ValueError, KeyError, RuntimeError, TypeError):  # a name that HDF5 does not take
            shutil.copy(path, target)
        return
    content = path.read_bytes()
    if path.suffix == ".nc" or rng.integers(3) == 0:
        target.write_bytes(mutated_bytes(content, rng))
    elif rng.integers(3) == 0:
        target.write_text(mutated_digit(content.decode(), rng), encoding="utf-8")
    else:
        document = json.loads(content)
        mutate_document(document, rng)
        target.write_text(json.dumps(document), encoding="utf-8")
