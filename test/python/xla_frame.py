"""XLA's calls of a kernel, without XLA: its structures, and a program that makes calls on a CUDA driver without a GPU.

As a program: prints, as JSON, the streams that launches went to, what XLA was told, and the results of the calls.
"""

import ctypes
import json
import os
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_void_p

EXECUTE, F32, DEVICES = 3, 11, 1
HEAD = [("struct_size", c_size_t), ("extension_start", c_void_p)]


class ErrorArguments(ctypes.Structure):
    _fields_ = [*HEAD, ("message", c_char_p), ("errc", c_int32)]


class StreamArguments(ctypes.Structure):
    _fields_ = [*HEAD, ("ctx", c_void_p), ("stream", c_void_p)]


class OrdinalArguments(ctypes.Structure):
    _fields_ = [*HEAD, ("ctx", c_void_p), ("device_ordinal", c_int32)]


MAKE_ERROR = ctypes.CFUNCTYPE(c_void_p, POINTER(ErrorArguments))
GET_STREAM = ctypes.CFUNCTYPE(c_void_p, POINTER(StreamArguments))
GET_ORDINAL = ctypes.CFUNCTYPE(c_void_p, POINTER(OrdinalArguments))


class Version(ctypes.Structure):
    _fields_ = [*HEAD, ("major_version", c_int32), ("minor_version", c_int32)]


class Api(ctypes.Structure):
    _fields_ = [*HEAD, ("api_version", Version), ("internal_api", c_void_p), ("XLA_FFI_Error_Create", MAKE_ERROR),
                ("before_stream", c_void_p * 3), ("XLA_FFI_Stream_Get", GET_STREAM), ("before_ordinal", c_void_p * 12),
                ("XLA_FFI_DeviceOrdinal_Get", GET_ORDINAL)]  # fmt: skip


class Buffer(ctypes.Structure):
    _fields_ = [*HEAD, ("dtype", c_int32), ("data", c_void_p), ("rank", c_int64), ("dims", POINTER(c_int64))]


class Buffers(ctypes.Structure):
    _fields_ = [*HEAD, ("size", c_int64), ("types", c_void_p), ("list", POINTER(POINTER(Buffer)))]


class Attribute(ctypes.Structure):
    _fields_ = [("dtype", c_int32), ("size", c_size_t), ("data", c_void_p)]


class Attributes(ctypes.Structure):
    _fields_ = [
        *HEAD,
        ("size", c_int64),
        ("types", c_void_p),
        ("names", c_void_p),
        ("attrs", POINTER(POINTER(Attribute))),
    ]


class Frame(ctypes.Structure):
    _fields_ = [*HEAD, ("api", POINTER(Api)), ("ctx", c_void_p), ("stage", c_int32), ("args", Buffers), ("rets", Buffers),
                ("attrs", Attributes)]  # fmt: skip


# Structures by XLA's names, with the fields whose places count.
LAYOUT = {
    "XLA_FFI_Api": Api, "XLA_FFI_Buffer": Buffer, "XLA_FFI_Args": Buffers, "XLA_FFI_Rets": Buffers,
    "XLA_FFI_Attrs": Attributes, "XLA_FFI_Array": Attribute, "XLA_FFI_CallFrame": Frame,
    "XLA_FFI_Error_Create_Args": ErrorArguments, "XLA_FFI_Stream_Get_Args": StreamArguments,
    "XLA_FFI_DeviceOrdinal_Get_Args": OrdinalArguments,
}  # fmt: skip
NAMES = {"XLA_FFI_Args": {"list": "args"}, "XLA_FFI_Rets": {"list": "rets"}}


def pointers(kind, items):
    return (POINTER(kind) * len(items))(*map(ctypes.pointer, items))


def buffer(array):
    dims = (c_int64 * array.ndim)(*array.shape)
    made = Buffer(ctypes.sizeof(Buffer), None, F32, array.ctypes.data, array.ndim, dims)
    made.kept = array, dims
    return made


def numbers(kind, values):
    data = (kind * len(values))(*values)
    made = Attribute(0, len(values), ctypes.addressof(data))
    made.kept = data
    return made


class Caller:
    """XLA's side of a call: `stream` and `ordinal` are what it says when it is asked."""

    def __init__(self, handler):
        self.stream, self.ordinal, self.told = None, 0, []
        self.handler = handler
        self._kept = MAKE_ERROR(self._error), GET_STREAM(self._stream), GET_ORDINAL(self._ordinal)
        self.api = Api(struct_size=ctypes.sizeof(Api), XLA_FFI_Error_Create=self._kept[0], XLA_FFI_Stream_Get=self._kept[1],
                       XLA_FFI_DeviceOrdinal_Get=self._kept[2])  # fmt: skip

    def _error(self, arguments):
        self.told.append(arguments[0].message.decode())
        return 1

    def _stream(self, arguments):
        arguments[0].stream = self.stream
        return None

    def _ordinal(self, arguments):
        arguments[0].device_ordinal = self.ordinal
        return None

    def call(self, inputs, results, kernels, scalars=()):
        """Nothing, or true where it was an error."""
        args, rets = ([buffer(each) for each in arrays] for arrays in (inputs, results))
        attributes = [
            numbers(c_double, scalars or [0.0]),
            numbers(c_int64, [1] * len(scalars) or [0]),
            numbers(c_int64, kernels),
        ]
        frame = Frame(ctypes.sizeof(Frame), None, ctypes.pointer(self.api), None, EXECUTE)
        frame.args = Buffers(ctypes.sizeof(Buffers), None, len(args), None, pointers(Buffer, args))
        frame.rets = Buffers(ctypes.sizeof(Buffers), None, len(rets), None, pointers(Buffer, rets))
        frame.attrs = Attributes(ctypes.sizeof(Attributes), None, 3, None, None, pointers(Attribute, attributes))
        return bool(self.handler(ctypes.byref(frame)))


def handler_of(capsule):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = c_void_p, [ctypes.py_object, c_char_p]
    return ctypes.CFUNCTYPE(c_void_p, c_void_p)(get(capsule, None))


def main():
    import headroom as hr
    import numpy as np
    from headroom import _headroom

    kernel = hr.kernel("kernel scale(x: f32[N], s: f32) -> (y: f32[N]) { y[n] = s * x[n] }", device="cuda:0")
    address = kernel._route("cuda:0").address
    driver = ctypes.CDLL(os.environ["HEADROOM_LIBCUDA"])
    driver.fake_stream.restype = c_void_p
    caller = Caller(handler_of(_headroom.xla_handler("CUDA")))
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    failed, streams = [], []
    for stream in (0x1230, 0x4560):
        caller.stream = stream
        failed.append(caller.call([x], [y], [address], [2.0]))
        streams.append(driver.fake_stream())
    caller.ordinal = DEVICES  # of which there is no kernel
    failed.append(caller.call([x], [y], [address], [2.0]))
    failed.append(caller.call([x[:0]], [], [address, address], [2.0]))
    print(json.dumps({"streams": streams, "failed": failed, "told": caller.told}))


if __name__ == "__main__":
    main()
