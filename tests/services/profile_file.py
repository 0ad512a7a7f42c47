"""A credentials file with one profile, rewritten as an agent does that renews a login."""

from __future__ import annotations

from pathlib import Path

_TEXT = """[agent]
aws_access_key_id = {key}
aws_secret_access_key = secret-of-{key}
aws_session_token = token-of-{key}
"""


class ProfileFile:
    """The file, and the environment in which clients find it.

    Args:
        folder: Folder for the file; it exists.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "credentials"
        self._others = folder / "config"
        self._others.touch()

    @property
    def environment(self) -> dict[str, str]:
        """The variables that name the file, and no other login."""
        return {
            "AWS_SHARED_CREDENTIALS_FILE": str(self._path),
            "AWS_CONFIG_FILE": str(self._others),
            "AWS_PROFILE": "agent",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def write(self, key: str) -> None:
        """Put a login into the file, in one step."""
        made = self._path.with_suffix(".new")
        made.write_text(_TEXT.format(key=key))
        made.rename(self._path)
