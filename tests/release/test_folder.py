"""Reading a release that is not whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from dalenius.errors import ReleaseError
from dalenius.release.folder import open_release
from tests.handmade import hospital


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_table_that_is_not_there_is_named_without_its_path(tmp_path: Path, kind: str) -> None:
    folder = hospital().write(tmp_path / "release", kind)
    (folder / f"st.{kind}").unlink()
    with pytest.raises(ReleaseError) as caught:
        list(open_release(folder).batches("st"))
    assert str(caught.value) == f"st.{kind} cannot be read: No such file or directory"
