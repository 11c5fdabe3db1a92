"""The part of headroom.h that the benchmarks need, through ctypes: load a kernel, bind arrays, launch.

Arrays are NumPy's on the CPU, and of any library with data_ptr() and shape (PyTorch) on a GPU; a list of them is bound
as a list.
"""

import ctypes
import mmap
import re
from ctypes import POINTER, byref, c_bool, c_char, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p

import ml_dtypes
import numpy as np

DTYPES = {
    name: (code, np.dtype(numpy))
    for code, (name, numpy) in enumerate({
        "f64": "f8", "f32": "f4", "f16": "f2", "bf16": ml_dtypes.bfloat16, "f8e4m3": ml_dtypes.float8_e4m3fn,
        "f8e5m2": ml_dtypes.float8_e5m2, "i64": "i8", "i32": "i4", "i16": "i2", "i8": "i1", "u8": "u1",
        "bool": "?"}.items())
}
APART = 2 << 20
TUNE = {"none": 1, "quick": 2, "full": 3}


class Array(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("data", c_void_p), ("dtype", c_int), ("rank", c_int),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64))]


class PrepareOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("tune", c_int), ("progress", c_void_p), ("progress_context", c_void_p),
                ("unfused", c_bool), ("threads", c_int)]


REST = [("rest", c_char * 1024)]  # what headroom.h has after the fields that are read here: the library writes it, too


class Floor(ctypes.Structure):
    _fields_ = [("seconds", c_double), ("bound", c_char_p), ("bytes", c_double), ("tensor_flops", c_double),
                ("vector_flops", c_double), ("special_ops", c_double)] + REST


class CacheRoof(ctypes.Structure):
    _fields_ = [("name", c_char * 8)] + [(n, c_double) for n in ("bytes", "read", "copy", "write", "triad")]


class Roof(ctypes.Structure):
    _fields_ = ([(n, c_double) for n in ("copy", "read", "write", "triad")]
                + [("cache", CacheRoof * 4), ("cache_count", c_int)]
                + [(n, c_double) for n in ("vector_f32", "vector_f64", "vector_bf16", "vector_f16", "vector_i32",
                                           "vector_i8", "tensor_f32", "tensor_bf16", "tensor_f16", "tensor_i8")]
                + [("special", c_double * 8), ("launch", c_double), ("threads", c_int), ("measured_at", c_double)]
                + REST)


class Error(Exception):
    pass


class Parameter:
    """A parameter or a result as the text declares it: dims are arithmetic over extent names."""

    def __init__(self, role, name, dtype, dims, default):
        self.role, self.name, self.dtype, self.dims, self.default = role, name, dtype, dims, default

    def shape(self, extents):
        return tuple(eval(dim, {}, dict(extents)) for dim in self.dims)


def signature(text, name, dtypes):
    """The parameters and results of kernel `name`, in order, its dtype variables standing for `dtypes`."""
    found = re.search(r"kernel\s+%s\s*\((.*?)\)\s*(?:->\s*\((.*?)\))?\s*(?:where[^{]*)?\{" % re.escape(name),
                      re.sub(r"#.*", "", text), re.S)
    if not found:
        raise Error(f"there is no kernel {name}")
    item = r"(\w+)\s*:\s*(inout\s+)?(\w+)\s*(?:\[([^\]]*)\])?\s*(?:=\s*([^,\s]+))?"
    parameters = []
    for role, part in (("input", found[1]), ("result", found[2] or "")):
        for name_, inout, dtype, dims, default in re.findall(item, part):
            parameters.append(Parameter("inout" if inout else role, name_, dtypes.get(dtype, dtype),
                                        [d.strip() for d in dims.split(",")] if dims else [],
                                        float(default) if default else None))
    return parameters


def empty(shape, dtype):
    """An array on pages of its own, large ones where the system has them. Arrays lie 2 MB further apart than they are
    long: exactly 2^28 bytes apart, those that a kernel walks side by side push each other out of a first-level cache."""
    count = int(np.prod(shape))
    size = max(count * np.dtype(dtype).itemsize, 1)
    memory = mmap.mmap(-1, -(-size // APART) * APART + APART, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype=dtype, count=count).reshape(shape)


def described(array, dtype):
    """The hr_array of an array, which must be without gaps."""
    address = array.data_ptr() if hasattr(array, "data_ptr") else array.ctypes.data
    shape = (c_int64 * len(array.shape))(*array.shape)
    return Array(ctypes.sizeof(Array), address, DTYPES[dtype][0], len(array.shape), shape, None)


class Library:
    def __init__(self, path, device="cpu"):
        self.c = ctypes.CDLL(path)
        self.c.hr_last_error.restype = c_char_p
        self.c.hr_version.restype = c_char_p
        self.c.hr_device_name.restype = c_char_p
        self.c.hr_kernel_bind_scalar.argtypes = [c_void_p, c_char_p, c_double]
        self.c.hr_kernel_bind_extent.argtypes = [c_void_p, c_char_p, c_int64]
        self.c.hr_kernel_bind_dtype.argtypes = [c_void_p, c_char_p, c_int]
        self.device = c_void_p()
        self.call("hr_device_open", device.encode(), byref(self.device))

    def call(self, function, *arguments):
        if getattr(self.c, function)(*arguments) != 0:
            raise Error(self.c.hr_last_error().decode())

    def version(self):
        return self.c.hr_version().decode()

    def device_name(self):
        return self.c.hr_device_name(self.device).decode()

    def stream(self, stream):
        """Launches go to this stream of CUDA's from now on."""
        self.c.hr_device_stream_set.argtypes = [c_void_p, c_void_p]
        self.c.hr_device_stream_set.restype = None
        self.c.hr_device_stream_set(self.device, stream)

    def roof(self):
        roof = Roof()
        self.call("hr_device_roof", self.device, c_bool(False), None, None, byref(roof))
        return roof


class Kernel:
    """One kernel bound to arrays: prepare() once, then launch() as often as wanted."""

    def __init__(self, library, path, name, dtypes, arrays, scalars, extents):
        self.library, self.arrays = library, arrays
        self.kernel = c_void_p()
        library.call("hr_kernel_load_file", library.device, str(path).encode(), name.encode(), byref(self.kernel))
        for key, value in dtypes.items():
            library.call("hr_kernel_bind_dtype", self.kernel, key.encode(), DTYPES[value][0])
        for key, value in extents.items():
            library.call("hr_kernel_bind_extent", self.kernel, key.encode(), value)
        for key, value in scalars.items():
            library.call("hr_kernel_bind_scalar", self.kernel, key.encode(), value)
        for key, (array, dtype) in arrays.items():
            self.bind(key, array, dtype)

    def bind(self, name, array, dtype):
        if isinstance(array, list):
            held = [described(a, dtype) for a in array]  # their shapes stay alive through the call
            members = (Array * len(array))(*held)
            self.library.call("hr_kernel_bind_list", self.kernel, name.encode(), members, c_int(len(array)))
        else:
            self.library.call("hr_kernel_bind", self.kernel, name.encode(), byref(described(array, dtype)))

    def prepare(self, tune):
        options = PrepareOptions(ctypes.sizeof(PrepareOptions), TUNE[tune], None, None, False, 0)
        self.library.call("hr_kernel_prepare", self.kernel, byref(options))

    def launch(self):
        self.library.call("hr_kernel_launch", self.kernel)

    def floor(self):
        floor = Floor()
        self.library.call("hr_kernel_floor", self.kernel, byref(floor))
        return floor

    def close(self):
        self.library.c.hr_kernel_destroy(self.kernel)
