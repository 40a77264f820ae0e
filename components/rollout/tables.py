"""Parquet files with fixed bytes: equal columns give an equal file. pyarrow is loaded on first use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from components.contracts.errors import DataError

Kind = Literal["text", "bytes", "int", "float", "bool"]
Columns = Mapping[str, tuple[Kind, Sequence[Any]]]


def write_table(path: Path, columns: Columns) -> None:
    """Write one file. Bytes columns are taken as compressed already."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {
        "text": pa.large_string(), "bytes": pa.large_binary(), "int": pa.int64(), "float": pa.float64(),
        "bool": pa.bool_(),
    }  # fmt: skip
    schema = pa.schema([pa.field(name, kinds[kind], nullable=False) for name, (kind, _) in columns.items()])
    arrays = [pa.array(values, type=kinds[kind]) for kind, values in columns.values()]
    compression: Any = {name: "NONE" if kind == "bytes" else "ZSTD" for name, (kind, _) in columns.items()}
    pq.write_table(
        pa.table(arrays, schema=schema), path, compression=compression, compression_level=None, version="2.6",
        use_dictionary=[n for n, (kind, _) in columns.items() if kind == "text"] or False, write_statistics=False,
    )  # fmt: skip


def read_table(path: Path, names: Sequence[str]) -> dict[str, list[Any]]:
    """The named columns as Python values. A missing, truncated or foreign file is a `DataError` that names it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        raise DataError("the file is missing", where=str(path), remedy="run the stage that writes it")
    try:
        table = pq.read_table(path, columns=list(names))
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(
            f"not a whole Parquet file: {str(error).splitlines()[0][:120]}", where=str(path),
            remedy="remove it and run the stage that writes it",
        ) from error  # fmt: skip
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise DataError(
            f"column {missing[0]!r} is missing", where=str(path), remedy="it was written by another version"
        )
    return {name: table.column(name).to_pylist() for name in names}
