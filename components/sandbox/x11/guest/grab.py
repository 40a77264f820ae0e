"""Pictures of the screen: a shared-memory grab through Xlib itself (half a millisecond), the pointer drawn in, PNG."""

from __future__ import annotations

import ctypes
import io
from typing import Any

from PIL import Image
from Xlib.display import Display
from Xlib.error import XError
from Xlib.xobject.drawable import Window

_ZPIXMAP = 2
_ALL_PLANES = ctypes.c_ulong(-1)
_IPC_PRIVATE, _IPC_RMID = 0, 0
_PNG_LEVEL = 1
"""Higher levels take twice the time for a tenth of the size."""


class _Segment(ctypes.Structure):
    """XShmSegmentInfo of X11/extensions/XShm.h."""

    _fields_ = [
        ("shmseg", ctypes.c_ulong),
        ("shmid", ctypes.c_int),
        ("shmaddr", ctypes.c_void_p),
        ("readOnly", ctypes.c_int),
    ]


class _Image(ctypes.Structure):
    """The beginning of XImage of X11/Xlib.h."""

    _fields_ = [
        ("width", ctypes.c_int),
        ("height", ctypes.c_int),
        ("xoffset", ctypes.c_int),
        ("format", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("byte_order", ctypes.c_int),
        ("bitmap_unit", ctypes.c_int),
        ("bitmap_bit_order", ctypes.c_int),
        ("bitmap_pad", ctypes.c_int),
        ("depth", ctypes.c_int),
        ("bytes_per_line", ctypes.c_int),
        ("bits_per_pixel", ctypes.c_int),
    ]


_IGNORE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda display, event: 0)


class Grabber:
    """Holds one connection and one segment of shared memory for the life of the agent."""

    def __init__(self, name: str) -> None:
        """Raises `RuntimeError` when the server has no shared memory for us."""
        self._x = ctypes.CDLL("libX11.so.6")
        # The library's own handler ends the process at the first error, and what runs inside can cause one.
        self._x.XSetErrorHandler(_IGNORE)
        self._ext = ctypes.CDLL("libXext.so.6")
        libc = ctypes.CDLL(None, use_errno=True)
        pointer = ctypes.c_void_p
        self._x.XOpenDisplay.restype = self._x.XDefaultVisual.restype = pointer
        self._x.XDefaultRootWindow.restype = ctypes.c_ulong
        self._ext.XShmCreateImage.restype = ctypes.POINTER(_Image)
        libc.shmat.restype = pointer
        self._display = pointer(self._x.XOpenDisplay(name.encode()))
        if not self._display:
            raise RuntimeError("no connection to the X server")
        self._root = ctypes.c_ulong(self._x.XDefaultRootWindow(self._display))
        width, height = self._x.XDisplayWidth(self._display, 0), self._x.XDisplayHeight(self._display, 0)
        visual = pointer(self._x.XDefaultVisual(self._display, 0))
        depth = self._x.XDefaultDepth(self._display, 0)
        self._segment = _Segment()
        self._image = self._ext.XShmCreateImage(
            self._display, visual, depth, _ZPIXMAP, None, ctypes.byref(self._segment), width, height
        )
        if not self._image or self._image.contents.bits_per_pixel != 32:
            raise RuntimeError("the X server has no 32-bit images in shared memory")
        self._size = (width, height)
        self._stride = int(self._image.contents.bytes_per_line)
        self._segment.shmid = libc.shmget(_IPC_PRIVATE, ctypes.c_size_t(self._stride * height), 0o600)
        address = libc.shmat(self._segment.shmid, None, 0) if self._segment.shmid >= 0 else None
        if address is None or address == ctypes.c_void_p(-1).value:
            raise RuntimeError("no shared memory")
        self._segment.shmaddr = self._image.contents.data = address
        if not self._ext.XShmAttach(self._display, ctypes.byref(self._segment)):
            raise RuntimeError("the X server refused shared memory")
        self._x.XSync(self._display, 0)
        libc.shmctl(self._segment.shmid, _IPC_RMID, None)  # goes with the last of its two users
        self._memory = (ctypes.c_char * (self._stride * height)).from_address(address)

    def rgb(self) -> Image.Image:
        """The screen as it is now, without the pointer."""
        if not self._ext.XShmGetImage(self._display, self._root, self._image, 0, 0, _ALL_PLANES):
            raise RuntimeError("the X server gave no image")
        return Image.frombuffer("RGB", self._size, bytes(self._memory), "raw", "BGRX", self._stride, 1)


def draw_pointer(image: Image.Image, display: Display, root: Window) -> Image.Image:
    """Puts the pointer's present shape on the picture: the server leaves it out of what it gives."""
    try:
        shape: Any = display.xfixes_get_cursor_image(root)
    except XError:  # the client whose pointer it is was killed, and the server tells nobody else its shape
        return image
    pixels = bytes(b for value in shape.cursor_image for b in (int(value) & 0xFFFFFFFF).to_bytes(4, "little"))
    sprite = Image.frombytes("RGBA", (shape.width, shape.height), pixels, "raw", "BGRa")  # premultiplied
    image = image.copy()
    image.paste(sprite, (shape.x - shape.xhot, shape.y - shape.yhot), sprite)
    return image


def png(image: Image.Image) -> bytes:
    out = io.BytesIO()
    image.save(out, "PNG", compress_level=_PNG_LEVEL)
    return out.getvalue()
