"""The platforms on which the package can be imported."""

import pytest

from timeloom import check_platform


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_linux_and_macos_are_supported(platform: str) -> None:
    check_platform(platform)


@pytest.mark.parametrize("platform", ["win32", "cygwin", "msys"])
def test_windows_is_refused_with_the_way_to_run_it(platform: str) -> None:
    with pytest.raises(ImportError, match="Linux and macOS; on Windows, install and run it inside WSL"):
        check_platform(platform)
