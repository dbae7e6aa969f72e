"""A table that comes as a form: kept in memory, never in a file, and no longer than it may be."""

from __future__ import annotations

import os

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from fairpost.errors import InputError, ParameterError
from fairpost.io.reading import FORMATS
from fairpost.io.source import Held

MOST = 64 << 20
"""Bytes of an upload."""


class InMemory(MultiPartParser):
    """Starlette's parser, which would put more than a megabyte into a temporary file."""

    spool_max_size = max_file_size = MOST + 1  # the name before Starlette 0.46 too


async def upload_of(request: Request) -> tuple[Held, str, str | None]:
    """The table, the mode and the format of an upload form."""
    if "multipart/form-data" not in request.headers.get("content-type", ""):
        raise ParameterError("an upload must be a form with a file (multipart/form-data), got something else")
    try:
        form = await InMemory(request.headers, request.stream(), max_files=1, max_fields=4).parse()
    except (MultiPartException, KeyError, UnicodeDecodeError):
        raise ParameterError("the form could not be read") from None
    try:
        file, mode, format = form.get("file"), form.get("mode") or "officer", form.get("format") or None
        if not isinstance(file, UploadFile) or not file.filename:
            raise InputError("an upload must have a file, got none")
        if not isinstance(mode, str) or (format is not None and format not in FORMATS):
            raise ParameterError(f"`format` must be one of {', '.join(FORMATS)}, got {str(format)[:40]!r}")
        name = os.path.basename(file.filename.replace("\\", "/"))[:200]
        return Held(name or "upload", await file.read()), mode, None if format is None else str(format)
    finally:
        await form.close()
