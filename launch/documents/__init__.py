"""Files of other tools as plain data, each key with its line; nothing in them is ever run.

| file | holds |
|---|---|
| `document` | one file: what it is, its values, the line of each |
| `yaml_text`, `script`, `words`, `module`, `hostfile` | the kinds that are neither JSON nor TOML |
| `folder` | several files, or a folder of them |
"""

from .document import Document, Kind, document
from .folder import documents

__all__ = ["Document", "Kind", "document", "documents"]
