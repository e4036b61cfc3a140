# SPDX-License-Identifier: Apache-2.0
"""Rich results: from an object to a bundle of MIME types, and off."""

import sys

import figures
import streams
from channel import RESULT, to_json

# A loop that displays for ever must not fill the host's memory (KRN-16).
RESULTS_PER_CELL = 1000
# Below the 64 MiB of a frame, which the engine takes as a fault.
RESULT_BYTES = 60 << 20
# A frame's rows as JSON take memory and time that nobody may have asked for;
# beyond this its text and HTML, which are abridged, have to do.
FRAME_CELLS = 100_000
FRAME_CHARACTERS = 8 << 20

METHODS = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_latex_", "text/latex"),
    ("_repr_json_", "application/json"),
    ("_repr_javascript_", "application/javascript"),
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
    ("_repr_pdf_", "application/pdf"),
)


# These have no other form than their text; most results are one of them.
PLAIN = frozenset((bool, bytes, complex, dict, float, frozenset, int, list, set,
                   str, tuple))


class Publisher:
    """Sends the results of one cell."""

    def __init__(self, channel):
        self.channel = channel
        self.count = 0

    def display_main(self, value):
        """Show the value of the code's last expression."""
        if type(value) in PLAIN:
            self.publish({"text/plain": text_of(value),
                          "isMainResult": "true"}, self.channel.hold)
        else:
            self.display((value,), is_main=True)

    def display(self, objects, include=None, exclude=None, raw=False,
                is_main=False):
        for each in objects:
            bundle = encode_bundle(each) if raw else bundle_of(
                each, include, exclude)
            if "text/plain" not in bundle:
                bundle["text/plain"] = text_of(each)
            bundle = {mime: data for mime, data in bundle.items()
                      if is_wanted(mime, include, exclude)}
            if is_main:
                bundle["isMainResult"] = "true"
            self.publish(bundle, self.channel.hold if is_main
                         else self.channel.send)
            if figures.is_figure(each):
                figures.close(each)

    def publish(self, bundle, send):
        if not self.channel.is_open():
            # A forked child has no channel (KRN-10); its text is not lost.
            print(bundle["text/plain"])
            return
        self.count += 1
        if self.count > RESULTS_PER_CELL + 1:
            return
        if self.count > RESULTS_PER_CELL:
            bundle = {"text/plain": "[more than %d results in one cell: the "
                                    "others are dropped]" % RESULTS_PER_CELL}
        body = to_json(bundle)
        if len(body) > RESULT_BYTES:
            body = to_json({"text/plain": "[a result of %d bytes is too large: "
                                          "the limit is %d]"
                                          % (len(body), RESULT_BYTES)})
        streams.flush_before_result()
        send(RESULT, body)


def is_wanted(mime, include, exclude):
    """What display()'s include and exclude say; text is always wanted."""
    return mime == "text/plain" or (
        (not include or mime in include) and
        (not exclude or mime not in exclude))


def bundle_of(value, include, exclude):
    """All forms of a value: MIME type -> text or base64."""
    if type(value) in PLAIN:
        return {}
    if figures.is_figure(value):
        return encode_bundle({"image/png": figures.png_of(value)})
    if isinstance(value, type) or answers_everything(value):
        return {}
    found = call(value, "_repr_mimebundle_", include=include, exclude=exclude)
    bundle = encode_bundle(found)
    for method, mime in METHODS:
        if mime not in bundle:
            bundle.update(encode_bundle({mime: call(value, method)}))
    if "application/json" not in bundle and is_frame(value):
        bundle.update(encode_bundle({"application/json": rows_of(value)}))
    return bundle


def is_frame(value):
    """Tell whether a value is a DataFrame of pandas, never imported here."""
    frame = getattr(sys.modules.get("pandas"), "DataFrame", None)
    return isinstance(frame, type) and isinstance(value, frame)


def rows_of(frame):
    """JSON of the rows, a list of objects; None if there is none.

    All rows or none: half a table would pass for the whole.
    """
    try:
        height, width = frame.shape
        if height * width > FRAME_CELLS:
            return None
        # 1 and "1" are two columns, but one name in JSON.
        if len(set(map(str, frame.columns))) < width:
            return None
        # By default it leaves digits out.
        text = frame.to_json(orient="records", date_format="iso",
                             double_precision=15, default_handler=str)
    except Exception:
        # A column of lists that hold themselves, for instance.
        return None
    return text if len(text) <= FRAME_CHARACTERS else None


def answers_everything(value):
    """Tell whether a value pretends to have each attribute, like a mock."""
    try:
        return hasattr(value, "_glovebox_no_such_attribute_")
    except Exception:
        return True


def call(value, name, **options):
    """The data a method of the code gives, None if it gives none."""
    try:
        method = getattr(value, name, None)
        found = method(**options) if callable(method) else None
    except Exception:
        # A form that an object fails to give is a form it does not have.
        return None
    if isinstance(found, tuple):
        # (data, metadata): there is no place for metadata in a result.
        found = found[0] if len(found) == 2 else None
    return found


def text_of(value):
    try:
        text = repr(value)
    except Exception as error:
        return "<%s object: repr raised %s>" % (
            type(value).__name__, describe(error))
    return str(text)


def describe(error):
    try:
        return "%s: %s" % (type(error).__name__, error)
    except Exception:
        return type(error).__name__


def encode_bundle(found):
    bundle = {}
    if isinstance(found, dict):
        for mime, data in found.items():
            text = encode(mime, data) if isinstance(mime, str) else None
            if text is not None:
                bundle[mime] = text
    return bundle


def encode(mime, data):
    """One form as protocol text; None if there is none."""
    is_json = mime == "application/json" or mime.endswith("+json")
    is_text = (is_json or mime.startswith("text/") or mime.endswith("+xml") or
               mime == "application/javascript")
    if data is None:
        return None
    if isinstance(data, (bytes, bytearray, memoryview)):
        if is_text:
            return str(data, "utf-8", "replace")
        from binascii import b2a_base64
        return b2a_base64(data, newline=False).decode("ascii")
    if is_json:
        return encode_json(data)
    if isinstance(data, str):
        # Binary data as a str is base64 already, perhaps in lines.
        return str(data) if is_text else "".join(data.split())
    return None


def encode_json(data):
    import json
    try:
        if isinstance(data, str):
            # Text of JSON by old custom, but a plain string is a value too.
            try:
                json.loads(data)
                return str(data)
            except ValueError:
                pass
        return json.dumps(data, ensure_ascii=False, allow_nan=False)
    except Exception:
        return None
